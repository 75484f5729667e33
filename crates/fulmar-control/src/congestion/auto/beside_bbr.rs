//! Beside BBR: its pulses (`pulses`) and its troughs (`trough`) tell that it is there, and troughs are filled
//! when they are expected (`fill`).

use fulmar_units::{Instant, Rate};

use super::fill::Fill;
use super::insistent::Insistent;
use super::phase::{Phase, Slow};
use super::probe_times;
use super::trough::{Sight, Standing, Trough};
use super::{Auto, Mechanism};
use crate::PathView;

/// A crowd that drains together leaves a trough as well, but loses more than this beyond the random loss
/// before; and of the random loss no more than so much counts, for a crowd's own loss may be taken for it.
const CROWD_LOSS: f64 = 0.03;
const CROWD_RANDOM_LOSS_MAX: f64 = 0.04;

impl Auto {
    /// A trough says that the others insist.
    pub(super) fn watch_troughs(&mut self, now: Instant, path: &PathView) {
        let is_startup = self.phase.is_startup();
        self.crowd.on_round(self.round_started_at, now, !is_startup && self.loses_too_much());
        let Some(mean) = self.tally.rtt_mean() else { return };
        let sight = Sight {
            began: self.round_started_at,
            ended: now,
            rtt_min: self.tally.rtt_min,
            rtt_mean: mean,
            slack: self.shortest_slack(),
            is_slow: self.sent_gain <= Slow::Down.gain(),
            is_startup,
            is_probe: matches!(self.phase, Phase::Up(_) | Phase::Fill(_) | Phase::Startup(_)),
            packets: self.tally.packets(),
            lost_packets: self.tally.lost_packets,
        };
        let Some(trough) = self.troughs.on_round(&sight) else { return };
        if self.has(Mechanism::Insistent) && self.is_left_by_bbr(now, &trough) {
            self.begin_beside_bbr(now, path);
        }
    }

    /// Its pulses tell it before the first trough comes.
    pub(super) fn watch_pulses(&mut self, now: Instant, path: &PathView) {
        let (Some(swing), Some(rtt_min)) = (self.tally.swing(), self.model.rtt_min()) else { return };
        let are_bbrs = self.pulses.on_round(swing, rtt_min, self.spread());
        let is_news = self.has_standing_queue && !self.is_beside_bbr(now) && self.has(Mechanism::Insistent);
        if are_bbrs && is_news && !self.may_be_kin(now) {
            self.begin_beside_bbr(now, path);
        }
    }

    /// We compete as one of them, and if we did not yet take our share as one of them, now.
    fn begin_beside_bbr(&mut self, now: Instant, path: &PathView) {
        self.insistent = Some(Insistent::seen(now, self.insistent));
        if matches!(self.phase, Phase::Cruise { .. }) && self.has(Mechanism::Competitive) {
            self.enter_compete(now, path);
        }
    }

    /// Those who obey leave no such trough, or one came before as long ago as BBR waits.
    fn is_left_by_bbr(&mut self, now: Instant, trough: &Trough) -> bool {
        let is_near = probe_times::is_near(now);
        if self.is_beside_bbr(now) && !is_near {
            return true;
        }
        let Standing { packets, lost_packets, .. } = trough.stood;
        let calm = CROWD_LOSS + self.random_loss.rate().min(CROWD_RANDOM_LOSS_MAX);
        if f64::from(lost_packets) > f64::from(packets) * calm {
            return false;
        }
        let is_again = trough.is_plain() && self.troughs.is_again(now);
        is_again || !(is_near || self.may_be_kin(now) || trough.may_be_ours())
    }

    /// The others are believed to take no loss for congestion.
    pub(super) fn is_beside_bbr(&self, now: Instant) -> bool {
        self.insistent.is_some_and(|insistent| insistent.is_believed(now))
    }

    /// The queue is gone without us.
    pub(super) fn may_fill(&self, now: Instant) -> bool {
        let is_steady = matches!(self.phase, Phase::Cruise { .. } | Phase::Up(_) | Phase::Compete(_));
        is_steady && self.is_beside_bbr(now) && self.troughs.is_free()
    }

    /// A trough that was to be expected: no need to see it end.
    pub(super) fn enter_fill(&mut self, now: Instant) {
        let fill = Fill::new(now, self.model.rate().unwrap_or(Rate::ZERO));
        self.insistent = Some(Insistent::seen(now, self.insistent));
        self.model.unbound_rate();
        self.bound_bytes = None;
        self.enter(Phase::Fill(fill));
    }

    /// Enough of the round's packets are back to say that all of them met a queue.
    fn all_wait(&self) -> bool {
        self.tells_of_queue() && self.has_queue(self.tally.rtt_min)
    }

    /// A queue or loss says at once that there is no more.
    pub(super) fn watch_fill(&mut self, path: &PathView) {
        let Phase::Fill(fill) = self.phase else { return };
        if self.all_wait() || self.is_congested(path) {
            self.enter(Phase::Fill(fill.found()));
        }
    }

    pub(super) fn judge_fill(&mut self, now: Instant, fill: Fill, path: &PathView) {
        let rate = self.model.rate().unwrap_or(Rate::ZERO);
        match fill.after_round(now, rate, self.round_gain <= fill.gain(), self.all_wait()) {
            Some(fill) => self.enter(Phase::Fill(fill)),
            None => {
                self.model.next_cycle();
                self.model.lower(fill.share(rate));
                self.enter_compete(now, path);
            }
        }
    }
}
