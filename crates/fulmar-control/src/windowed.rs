//! Running minimum and maximum over a sliding window, in constant time and space.
//!
//! Kathleen Nichols' algorithm (Linux `lib/win_minmax.c`): the best, second best and third best sample are
//! kept, each newer than the one before, so that when the best grows old its successor is at hand. The
//! position is any number that never falls: nanoseconds, rounds, cycles. The result is exact for a monotone
//! series and never older than the window.

/// The best of what a [`Windowed`] filter saw lately.
#[derive(Copy, Clone, Debug)]
struct Entry {
    at: u64,
    value: u64,
}

/// Running extreme of a series: a maximum, or a minimum of which the caller stores the complement.
#[derive(Clone, Debug)]
struct Extreme {
    window: u64,
    best: Option<[Entry; 3]>,
}

impl Extreme {
    const fn new(window: u64) -> Self {
        Self { window, best: None }
    }

    fn reset(&mut self) {
        self.best = None;
    }

    fn value(&self) -> Option<u64> {
        self.best.map(|best| best[0].value)
    }

    fn update(&mut self, at: u64, value: u64) {
        let new = Entry { at, value };
        let Some(best) = &mut self.best else {
            self.best = Some([new; 3]);
            return;
        };
        if value >= best[0].value || at.saturating_sub(best[2].at) > self.window {
            *best = [new; 3];
            return;
        }
        if value >= best[1].value {
            best[1] = new;
            best[2] = new;
        } else if value >= best[2].value {
            best[2] = new;
        }
        let age = at.saturating_sub(best[0].at);
        if age > self.window {
            *best = [best[1], best[2], new];
            if at.saturating_sub(best[0].at) > self.window {
                *best = [best[1], best[2], new];
            }
        } else if best[1].at == best[0].at && age > self.window / 4 {
            // A quarter of the window passed without a better second choice: take one from the second
            // quarter.
            best[1] = new;
            best[2] = new;
        } else if best[2].at == best[1].at && age > self.window / 2 {
            best[2] = new;
        }
    }
}

/// Largest value seen in the last `window` units of position.
#[derive(Clone, Debug)]
pub struct WindowedMax(Extreme);

impl WindowedMax {
    /// A filter that forgets after `window` units of position.
    pub const fn new(window: u64) -> Self {
        Self(Extreme::new(window))
    }

    /// Takes a sample at position `at`, which must not fall.
    pub fn update(&mut self, at: u64, value: u64) {
        self.0.update(at, value);
    }

    /// The largest of the window; `None` before the first sample.
    pub fn value(&self) -> Option<u64> {
        self.0.value()
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

/// Smallest value seen in the last `window` units of position.
#[derive(Clone, Debug)]
pub struct WindowedMin(Extreme);

impl WindowedMin {
    /// A filter that forgets after `window` units of position.
    pub const fn new(window: u64) -> Self {
        Self(Extreme::new(window))
    }

    /// Takes a sample at position `at`, which must not fall.
    pub fn update(&mut self, at: u64, value: u64) {
        self.0.update(at, !value);
    }

    /// The smallest of the window; `None` before the first sample.
    pub fn value(&self) -> Option<u64> {
        self.0.value().map(|complement| !complement)
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_is_kept_for_the_window_and_no_longer() {
        let mut max = WindowedMax::new(10);
        max.update(0, 100);
        for at in 1..=10 {
            max.update(at, 50 + at);
            assert_eq!(max.value(), Some(100), "at {at}");
        }
        max.update(11, 7);
        // The best of what is left is one of the recent 50-somethings, not 100 and not 7.
        assert!(matches!(max.value(), Some(53..=60)), "{:?}", max.value());
    }

    #[test]
    fn the_minimum_mirrors_the_maximum() {
        let mut min = WindowedMin::new(10);
        min.update(0, 20);
        min.update(1, 30);
        assert_eq!(min.value(), Some(20));
        min.update(2, 10);
        assert_eq!(min.value(), Some(10));
        min.update(13, 40);
        assert_eq!(min.value(), Some(40));
        min.reset();
        assert_eq!(min.value(), None);
    }

    #[test]
    fn it_never_exceeds_the_exact_maximum_nor_falls_below_the_newest() {
        let (window, mut max) = (16, WindowedMax::new(16));
        let mut samples = alloc::vec::Vec::new();
        let mut state = 12345_u64;
        for at in 0..500_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = state >> 40;
            samples.push(value);
            max.update(at, value);
            let from = at.saturating_sub(window) as usize;
            let exact = samples[from..].iter().copied().max();
            assert!(max.value() <= exact && max.value() >= Some(value), "at {at}");
        }
    }
}
