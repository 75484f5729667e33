//! **Unstable.** What a [`Profile`](crate::Profile) is made of, and the traits for modules of one's own.
//!
//! It may change with any release, hence the feature `unstable`. A profile is a plain struct with one field
//! for each question, beside those that its documentation shows:
//!
//! | field | type | decides |
//! |---|---|---|
//! | `code` | `Arc<dyn `[`Code`](fec::Code)`>` | how repair is made |
//! | `congestion` | [`Make`]`<dyn `[`CongestionController`](control::CongestionController)`>` | how much may be under way, how fast it leaves |
//! | `loss` | [`Make`]`<dyn `[`LossEstimator`](control::LossEstimator)`>` | the estimate of the loss rate |
//! | `redundancy` | [`Make`]`<dyn `[`RedundancyPolicy`](control::RedundancyPolicy)`>` | new data or repair |
//! | `sizing` | [`Make`]`<dyn `[`Sizing`](control::Sizing)`>` | the length of blocks |
//!
//! Only the code is negotiated with the peer; everything else is this end's own affair. A controller of one's
//! own:
//!
//! ```
//! use std::sync::Arc;
//! use fulmar::modules::control::{CongestionController, Feedback, PathView, SendBudget};
//! use fulmar::{Instant, Profile, TransportConfig};
//!
//! /// A window of as many packets as it is told, whatever happens.
//! #[derive(Debug)]
//! struct Constant {
//!     packets: u64,
//!     mtu_bytes: u32,
//! }
//!
//! impl CongestionController for Constant {
//!     fn name(&self) -> &'static str {
//!         "constant"
//!     }
//!     fn on_feedback(&mut self, _: &Feedback, path: &PathView) {
//!         self.mtu_bytes = path.mtu_bytes;
//!     }
//!     fn on_timeout(&mut self, _: Instant, _count: u32, _: &PathView) {}
//!     fn on_path_change(&mut self, _: Instant, path: &PathView) {
//!         self.mtu_bytes = path.mtu_bytes;
//!     }
//!     fn budget(&self) -> SendBudget {
//!         let window_bytes = self.packets * u64::from(self.mtu_bytes);
//!         SendBudget { window_bytes, pacing: None, burst_bytes: window_bytes }
//!     }
//! }
//!
//! let mut profile = Profile::auto();
//! profile.congestion = Arc::new(|context| Box::new(Constant { packets: 32, mtu_bytes: context.mtu_bytes }));
//! let mut transport = TransportConfig::default();
//! transport.profile(profile);
//! ```
//!
//! `examples/own_controller.rs` runs one over a path that loses packets. docs/extending.md of the repository
//! says how a module gets a name, for the program and the laboratory.

pub use fulmar_proto::profile::{
    Family, HandshakeTimer, Kind, Make, MakeContext, Setting, Value, Values, families, settings,
};
pub use fulmar_proto::{control, fec};
