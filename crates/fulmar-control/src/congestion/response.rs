//! TCP's window under one of several answers to congestion.
//!
//! The window, its growth and its undoing are `aimd`'s; which signal shrinks it, and by how much, is all that
//! tells Reno, NewReno and their relatives apart.

use core::fmt::Debug;

use fulmar_units::Instant;

use super::aimd::Aimd;
use super::window::WindowConfig;
use super::{CongestionController, SendBudget};
use crate::{Feedback, PathView};

/// What a window-based controller answers to the signs of congestion.
pub trait Response: Clone + Debug + Send {
    /// The field's name of the algorithm.
    const NAME: &'static str;

    /// An ACK arrived or losses were detected.
    fn on_feedback(&mut self, window: &mut Aimd, feedback: &Feedback, path: &PathView);

    /// The probe timeout expired `count` times in a row.
    fn on_timeout(&mut self, window: &mut Aimd, count: u32) {
        window.on_timeout(count);
    }

    /// The path was replaced: nothing that was learned of the old one holds.
    fn on_path_change(&mut self) {}
}

/// A controller that keeps TCP's window and answers by `R`.
#[derive(Clone, Debug)]
pub struct WindowController<R> {
    pub(super) window: Aimd,
    pub(super) response: R,
}

impl<R: Response> WindowController<R> {
    /// A controller for a path of `mtu_bytes`.
    pub fn with_response(mtu_bytes: u32, config: WindowConfig, response: R) -> Self {
        Self { window: Aimd::new(mtu_bytes, config), response }
    }

    /// What answers.
    pub fn response(&self) -> &R {
        &self.response
    }

    /// The same, to set.
    pub fn response_mut(&mut self) -> &mut R {
        &mut self.response
    }
}

impl<R: Response> CongestionController for WindowController<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        self.window.on_path(path);
        self.response.on_feedback(&mut self.window, feedback, path);
    }

    fn on_timeout(&mut self, now: Instant, count: u32, _path: &PathView) {
        self.response.on_timeout(&mut self.window, count);
        self.window.on_timed_out(now);
    }

    fn on_path_change(&mut self, _now: Instant, path: &PathView) {
        self.window.restart(path);
        self.response.on_path_change();
    }

    fn budget(&self) -> SendBudget {
        self.window.budget()
    }

    fn recoveries(&self) -> Option<u64> {
        Some(self.window.recoveries)
    }

    fn phase(&self) -> &'static str {
        self.window.phase()
    }
}
