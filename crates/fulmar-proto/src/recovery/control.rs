//! The congestion controller with what it said last, and the pacer that obeys it.

use fulmar_control::{CongestionController, Feedback, Pacer, PathView, SendBudget};

use crate::Instant;

/// How much may be under way on one path, and when the next packet may leave.
#[derive(Debug)]
pub(super) struct Control {
    controller: Box<dyn CongestionController>,
    /// What it allowed when it was last told something.
    budget: SendBudget,
    pacer: Pacer,
    /// The window or the pacer held something back since the last feedback.
    is_limiting: bool,
    /// When a packet will be wanted that the pacer made wait.
    wake_at: Option<Instant>,
}

impl Control {
    pub(super) fn new(now: Instant, controller: Box<dyn CongestionController>) -> Self {
        let budget = controller.budget();
        Self { controller, budget, pacer: Pacer::new(now, budget), is_limiting: false, wake_at: None }
    }

    /// Another controller, before anything was measured for the old one but, perhaps, a round trip: then
    /// `view` has it.
    pub(super) fn adopt(
        &mut self,
        now: Instant,
        mut controller: Box<dyn CongestionController>,
        view: Option<&PathView>,
    ) {
        if let Some(view) = view {
            controller.on_handshake_rtt(view);
        }
        self.controller = controller;
        self.budget = self.controller.budget();
        self.pacer = Pacer::new(now, self.budget);
    }

    pub(super) fn controller(&self) -> &dyn CongestionController {
        &*self.controller
    }

    pub(super) fn budget(&self) -> SendBudget {
        self.budget
    }

    /// Tells the controller something, after which its budget may be another.
    pub(super) fn tell<R>(
        &mut self,
        now: Instant,
        tell: impl FnOnce(&mut dyn CongestionController) -> R,
    ) -> R {
        let told = tell(&mut *self.controller);
        self.budget = self.controller.budget();
        self.pacer.on_budget(now, self.budget);
        told
    }

    /// The one feedback record, but for what this knows itself: [`Self::take_is_limiting`]. Returns how many
    /// times the controller entered fast recovery by it, if it counts that.
    pub(super) fn on_feedback(&mut self, feedback: &Feedback, view: &PathView) -> u64 {
        self.wake_at = None;
        self.tell(feedback.now, |controller| {
            let before = controller.recoveries();
            controller.on_feedback(feedback, view);
            before.zip(controller.recoveries()).map_or(0, |(before, after)| after.saturating_sub(before))
        })
    }

    /// Whether something was held back since this was last asked.
    pub(super) fn take_is_limiting(&mut self) -> bool {
        std::mem::take(&mut self.is_limiting)
    }

    /// Something would have left if it might have.
    pub(super) fn on_held_back(&mut self) {
        self.is_limiting = true;
    }

    /// May a packet of `bytes` leave by the pace? If not, when.
    pub(super) fn poll_pace(&mut self, now: Instant, bytes: u64) -> Result<(), Instant> {
        self.pacer.poll(now, bytes)
    }

    /// A packet of `bytes` left, into an empty path if `begins_flight`.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64, begins_flight: bool) {
        if begins_flight {
            self.controller.on_flight_begun();
            self.budget = self.controller.budget();
        }
        self.pacer.on_sent(now, bytes);
    }

    /// A packet will be wanted when the pacer lets one leave; `None`: it will not.
    pub(super) fn wake_for_pacer(&mut self, at: Option<Instant>) {
        self.wake_at = at;
    }

    /// When that is.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.wake_at
    }

    /// Time has passed.
    pub(super) fn on_time(&mut self, now: Instant) {
        self.wake_at.take_if(|at| *at <= now);
    }
}

#[cfg(test)]
mod tests {
    use fulmar_control::{NewReno, WindowConfig};

    use super::*;

    fn control() -> Control {
        Control::new(Instant::ZERO, Box::new(NewReno::new(1200, WindowConfig::default())))
    }

    #[test]
    fn the_budget_is_the_controllers_from_the_moment_it_is_told() {
        let mut control = control();
        let before = control.budget().window_bytes;
        let mut feedback = Feedback::at(Instant::from_nanos(2));
        (feedback.lost.bytes, feedback.lost.packets, feedback.lost.bursts) = (1200, 1, 1);
        feedback.lost.newest_sent_at = Some(Instant::from_nanos(1));
        control.on_feedback(&feedback, &PathView::unknown(1200));
        assert!(control.budget().window_bytes < before);
        assert_eq!(control.budget(), control.controller().budget());
    }

    #[test]
    fn a_record_forgets_who_waits_and_tells_once_that_something_was_held_back() {
        let mut control = control();
        control.wake_for_pacer(Some(Instant::from_nanos(7)));
        control.on_held_back();
        assert_eq!((control.take_is_limiting(), control.take_is_limiting()), (true, false));
        control.on_time(Instant::from_nanos(6));
        assert!(control.wake_at().is_some());
        control.on_feedback(&Feedback::at(Instant::ZERO), &PathView::unknown(1200));
        assert_eq!(control.wake_at(), None);
    }
}
