//! A profile: a named choice of modules on the one engine.
//!
//! A plain struct of makers. A recombination is `Profile { code: other.code.clone(), ..Profile::auto() }`.

use std::fmt;
use std::sync::Arc;

use fulmar_control as control;
use fulmar_control::{CongestionController, FixedSizing, LossEstimator, RedundancyPolicy, Sizing};
use fulmar_fec::{Code, NoCode, RlcWindow};

use crate::recovery::RecoveryConfig;

/// Longest window that the sliding-window code of this implementation covers.
pub(crate) const WINDOW_SYMBOLS: u32 = 256;

/// Makes one module for each connection (and anew for each path).
pub type Make<T> = Arc<dyn Fn(&MakeContext) -> Box<T> + Send + Sync>;

/// What a module may know when it is made.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct MakeContext {
    /// Largest UDP payload the path is known to carry.
    pub mtu_bytes: u32,
    /// Seed for an algorithm that draws.
    pub seed: u64,
}

impl MakeContext {
    /// A context for a path of which the MTU is known.
    pub fn new(mtu_bytes: u32, seed: u64) -> Self {
        Self { mtu_bytes, seed }
    }
}

/// The modules a connection uses to send. Local to the sender: the ends may differ.
#[derive(Clone)]
pub struct Profile {
    /// Its name, on the command line and in statistics.
    pub name: String,
    /// The erasure code.
    pub code: Arc<dyn Code>,
    /// The congestion controller.
    pub congestion: Make<dyn CongestionController>,
    /// The loss-rate estimator.
    pub loss: Make<dyn LossEstimator>,
    /// The redundancy policy.
    pub redundancy: Make<dyn RedundancyPolicy>,
    /// How long blocks are, where the code has blocks.
    pub sizing: Make<dyn Sizing>,
    /// Loss detection and timeouts.
    pub recovery: RecoveryConfig,
}

/// The names of all profiles.
pub const PROFILE_NAMES: [&str; 3] = ["auto", "newreno", "cubic"];

impl Profile {
    /// The default: a sliding-window random linear code and congestion control that tells loss from congestion.
    pub fn auto() -> Self {
        Self {
            name: "auto".into(),
            code: Arc::new(
                RlcWindow::new(WINDOW_SYMBOLS)
                    .unwrap_or_else(|_| unreachable!("a constant within the bounds")),
            ),
            congestion: Arc::new(|context| Box::new(control::Auto::new(context.mtu_bytes))),
            loss: Arc::new(|_| Box::new(control::Pooled::new())),
            redundancy: Arc::new(|_| Box::new(control::AutoRedundancy::new())),
            sizing: Arc::new(|_| Box::new(FixedSizing::longest())),
            recovery: RecoveryConfig::default(),
        }
    }

    /// TCP's NewReno (RFC 6582) without any code: a yardstick.
    pub fn newreno() -> Self {
        Self {
            congestion: Arc::new(|context| {
                Box::new(control::NewReno::new(context.mtu_bytes, Default::default()))
            }),
            ..Self::plain("newreno")
        }
    }

    /// TCP's CUBIC (RFC 9438) without any code: the other yardstick.
    pub fn cubic() -> Self {
        Self::plain("cubic")
    }

    fn plain(name: &str) -> Self {
        Self {
            name: name.into(),
            code: Arc::new(NoCode),
            congestion: Arc::new(|context| {
                Box::new(control::Cubic::new(context.mtu_bytes, Default::default()))
            }),
            loss: Arc::new(|_| Box::new(control::Pooled::new())),
            redundancy: Arc::new(|_| Box::new(control::Arq::new())),
            sizing: Arc::new(|_| Box::new(FixedSizing::longest())),
            recovery: RecoveryConfig::default(),
        }
    }

    /// The profile of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::auto()),
            "newreno" => Some(Self::newreno()),
            "cubic" => Some(Self::cubic()),
            _ => None,
        }
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("name", &self.name).field("code", &self.code).finish_non_exhaustive()
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::auto()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_profile_and_no_other() {
        for name in PROFILE_NAMES {
            let profile = Profile::by_name(name).unwrap();
            assert_eq!(profile.name, name);
            let context = MakeContext::new(1200, 1);
            assert!((profile.congestion)(&context).budget().window_bytes >= 2400);
        }
        assert!(Profile::by_name("bbr").is_none());
    }
}
