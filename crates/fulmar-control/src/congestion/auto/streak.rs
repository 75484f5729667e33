//! What several rounds in a row have shown.

/// Rounds from which on it is known; more make it last longer, up to twice as many.
const KNOWN: u32 = 3;
/// What a round that shows the contrary takes back.
const BACK: u32 = 2;

/// Counts them.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Streak {
    rounds: u32,
}

impl Streak {
    /// A round has shown it, or the contrary; `None`: neither.
    pub(super) fn on_round(&mut self, shown: Option<bool>) {
        self.rounds = match shown {
            Some(true) => (self.rounds + 1).min(2 * KNOWN),
            Some(false) => self.rounds.saturating_sub(BACK),
            None => self.rounds,
        };
    }

    /// A round has shown it, and none has taken that back.
    pub(super) fn has_begun(self) -> bool {
        self.rounds > 0
    }

    pub(super) fn is_known(self) -> bool {
        self.rounds >= KNOWN
    }
}
