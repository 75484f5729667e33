//! CUBIC: the window follows a cubic function of the time since the last reduction.
//!
//! Source: RFC 9438; section numbers stand at each rule. Slow start by bytes acknowledged (RFC 9002 7.3.1),
//! optionally with HyStart++ (RFC 9406). On ECN marks the milder factor of RFC 8511 (ABE). Inputs as for
//! NewReno; the clock is the time of the feedback. Windows are bytes in the state and packets (segments) in
//! the formulas, as in the RFC.
//!
//! Differences: reduces from the window rather than from the bytes in flight (4.6 allows it where, as here,
//! the window does not grow while the application is the limit); probe timeouts count as the RFC's
//! retransmission timeout once congestion persists (RFC 9002 7.6).
//!
//! Invariants: window >= 2 packets; growth per round at most 50 % (4.2); one reduction per round of loss.

use core::time::Duration;

use fulmar_units::Instant;

use super::hystart::{CSS_GROWTH_DIVISOR, HyStart, SlowStart};
use super::window::{Epoch, WindowConfig, pacing_rtt};
use super::{CongestionController, SendBudget};
use crate::{Feedback, PathView};

/// RFC 9438 4.1 (5): how fast the window grows, in packets per second cubed.
const C: f64 = 0.4;
/// RFC 9438 4.6: multiplicative decrease on loss.
const BETA: f64 = 0.7;
/// RFC 8511 3.1: multiplicative decrease of CUBIC on a mark.
const BETA_ECN: f64 = 0.85;

/// Settings of CUBIC.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CubicConfig {
    /// What it shares with other windows.
    pub window: WindowConfig,
    /// End slow start when the RTT rises (RFC 9406).
    pub has_hystart: bool,
    /// Give way faster to new flows (RFC 9438 4.7).
    pub has_fast_convergence: bool,
}

impl Default for CubicConfig {
    fn default() -> Self {
        Self { window: WindowConfig::default(), has_hystart: true, has_fast_convergence: true }
    }
}

/// What a spurious event gives back (RFC 9438 4.9).
#[derive(Copy, Clone, Debug)]
struct State {
    window_packets: f64,
    ssthresh_packets: f64,
    /// W_max: the plateau of the cubic function.
    max_packets: f64,
    /// The current stage of congestion avoidance, once there was an ACK in it.
    stage: Option<Stage>,
}

/// One stage of congestion avoidance: from one reduction to the next (RFC 9438 4.1.2).
#[derive(Copy, Clone, Debug)]
struct Stage {
    /// t_epoch, moved on by the time the application was the limit (5.8).
    started_at: Instant,
    /// K, in seconds: when the function reaches its plateau again.
    k_seconds: f64,
    /// W_est: what Reno would have.
    reno_packets: f64,
}

/// CUBIC.
#[derive(Clone, Debug)]
pub struct Cubic {
    config: CubicConfig,
    mtu_bytes: u32,
    state: State,
    /// cwnd_prior: the window before the last reduction, where W_est stops being held back (4.3).
    prior_packets: f64,
    epoch: Epoch<State>,
    recoveries: u64,
    hystart: HyStart,
    app_limited_since: Option<Instant>,
    rtt: Option<Duration>,
}

impl Cubic {
    /// A controller for a path of `mtu_bytes`.
    pub fn new(mtu_bytes: u32, config: CubicConfig) -> Self {
        Self {
            config,
            mtu_bytes,
            state: State {
                window_packets: f64::from(config.window.initial_packets.max(config.window.min_packets)),
                ssthresh_packets: f64::INFINITY,
                max_packets: 0.0,
                stage: None,
            },
            prior_packets: 0.0,
            epoch: Epoch::new(),
            recoveries: 0,
            hystart: HyStart::new(),
            app_limited_since: None,
            rtt: None,
        }
    }

    /// A controller already in congestion avoidance at `window_bytes`, its plateau there (K = 0).
    pub(super) fn at_window(mtu_bytes: u32, config: CubicConfig, window_bytes: u64) -> Self {
        let mut cubic = Self::new(mtu_bytes, config);
        let window = (window_bytes as f64 / f64::from(mtu_bytes.max(1))).max(cubic.min_packets());
        cubic.state.window_packets = window;
        cubic.state.ssthresh_packets = window;
        cubic.state.max_packets = window;
        cubic
    }

    fn min_packets(&self) -> f64 {
        f64::from(self.config.window.min_packets.max(2))
    }

    fn is_slow_start(&self) -> bool {
        self.state.window_packets < self.state.ssthresh_packets
    }

    fn reduce(&mut self, feedback: &Feedback, is_loss: bool) {
        self.epoch.start(feedback, self.state, is_loss);
        let window = self.state.window_packets;
        // 4.7: a plateau lower than the last one shows a new flow: leave it more room still.
        self.state.max_packets = if window < self.state.max_packets && self.config.has_fast_convergence {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        };
        self.prior_packets = window;
        let beta = if is_loss { BETA } else { BETA_ECN };
        self.state.ssthresh_packets = (window * beta).max(self.min_packets());
        self.state.window_packets = self.state.ssthresh_packets;
        self.state.stage = None;
        self.app_limited_since = None;
    }

    fn slow_start(&mut self, feedback: &Feedback, acked_packets: f64) {
        let verdict = if self.config.has_hystart {
            self.hystart.on_ack(feedback.round, feedback.rtt)
        } else {
            SlowStart::Standard
        };
        let acked_packets =
            if self.config.window.counts_acks { acked_packets.min(1.0) } else { acked_packets };
        let growth = match verdict {
            SlowStart::Standard => acked_packets,
            SlowStart::Conservative => acked_packets / CSS_GROWTH_DIVISOR as f64,
            SlowStart::Exit => {
                self.state.ssthresh_packets = self.state.window_packets;
                return;
            }
        };
        self.state.window_packets = (self.state.window_packets + growth).min(self.state.ssthresh_packets);
    }

    /// The stage begins with its first ACK in congestion avoidance.
    fn begin_stage(&mut self, now: Instant) -> Stage {
        let window = self.state.window_packets;
        // 4.8, 4.10: without a plateau above it (after slow start or a timeout) the window is its own
        // plateau, K = 0.
        if self.state.max_packets < window {
            self.state.max_packets = window;
        }
        // (2): K = cbrt((W_max - cwnd_epoch) / C).
        let k_seconds = libm::cbrt((self.state.max_packets - window) / C);
        Stage { started_at: now, k_seconds, reno_packets: window }
    }

    fn avoid_congestion(&mut self, feedback: &Feedback, path: &PathView, acked_packets: f64) {
        let mut stage = match self.state.stage {
            Some(stage) => stage,
            None => self.begin_stage(feedback.now),
        };
        if let Some(since) = self.app_limited_since.take() {
            // 5.8: the function must not run on while nothing tests the window.
            stage.started_at += feedback.now - since;
        }
        let window = self.state.window_packets;
        let seconds = (feedback.now - stage.started_at).as_secs_f64();
        // (1): W_cubic(t) = C * (t - K)^3 + W_max.
        let cubic = |t: f64| {
            let from_plateau = t - stage.k_seconds;
            C * from_plateau * from_plateau * from_plateau + self.state.max_packets
        };
        // (4): Reno's average rate at CUBIC's beta, until the window of the last event is reached; Reno's
        // pace after.
        let alpha =
            if stage.reno_packets < self.prior_packets { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        stage.reno_packets += alpha * acked_packets / window;
        self.state.window_packets = if cubic(seconds) < stage.reno_packets {
            // 4.3: the Reno-friendly region.
            window.max(stage.reno_packets)
        } else {
            // 4.4, 4.5: towards where the function will be in one round trip, at most half as much again.
            let target = cubic(seconds + path.rtt_smoothed.as_secs_f64()).clamp(window, 1.5 * window);
            window + (target - window) / window * acked_packets
        };
        self.state.stage = Some(stage);
    }

    fn on_spurious(&mut self, packets: u32) {
        if packets == 0 {
            return;
        }
        if let Some(before) = self.epoch.on_spurious(packets)
            && before.window_packets > self.state.window_packets
        {
            self.state = before;
        }
    }
}

impl CongestionController for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        self.mtu_bytes = path.mtu_bytes;
        self.rtt = pacing_rtt(path);
        self.on_spurious(feedback.spurious_packets);
        let is_loss = self.epoch.is_new_loss(feedback);
        if is_loss || self.epoch.is_new_mark(feedback) {
            self.reduce(feedback, is_loss);
            self.recoveries += u64::from(is_loss);
            return;
        }
        if !feedback.is_window_limited {
            self.app_limited_since.get_or_insert(feedback.now);
            return;
        }
        if feedback.acked_bytes == 0 || self.epoch.covers(feedback.newest_acked_sent_at) {
            return;
        }
        let acked_packets = feedback.acked_bytes as f64 / f64::from(self.mtu_bytes.max(1));
        // No ACK acknowledges more than the window allowed to be in flight.
        let acked_packets = acked_packets.min(self.state.window_packets);
        if self.is_slow_start() {
            self.app_limited_since = None;
            self.slow_start(feedback, acked_packets);
        } else {
            self.avoid_congestion(feedback, path, acked_packets);
        }
    }

    fn on_timeout(&mut self, now: Instant, count: u32, _path: &PathView) {
        if count != self.config.window.collapse_timeouts() {
            return;
        }
        // 4.8: as a loss, but from one (here: the smallest) window in slow start, and the old plateau is
        // forgotten.
        self.reduce(&Feedback::at(now), true);
        self.epoch.reset();
        if self.config.window.is_timeout_final {
            self.epoch.on_timed_out(now);
        }
        self.state.max_packets = 0.0;
        self.state.window_packets = match self.config.window.loss_packets {
            0 => self.min_packets(),
            packets => f64::from(packets),
        };
    }

    fn on_path_change(&mut self, _now: Instant, path: &PathView) {
        *self = Self { recoveries: self.recoveries, ..Self::new(path.mtu_bytes, self.config) };
        self.rtt = pacing_rtt(path);
    }

    fn budget(&self) -> SendBudget {
        let window_bytes = (self.state.window_packets * f64::from(self.mtu_bytes)) as u64;
        self.config.window.budget(window_bytes, self.mtu_bytes, self.rtt, self.is_slow_start())
    }

    fn recoveries(&self) -> Option<u64> {
        Some(self.recoveries)
    }

    fn phase(&self) -> &'static str {
        match self.state.stage {
            _ if self.is_slow_start() => "slow start",
            Some(stage) if stage.reno_packets >= self.state.window_packets => "reno-friendly",
            _ if self.state.window_packets < self.state.max_packets => "concave",
            _ => "convex",
        }
    }
}

#[cfg(test)]
mod tests;
