//! What the demo shows while a run goes on: a panel on a terminal, a line now and then elsewhere.

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::units;

/// Samples in the curve.
const CURVE_SAMPLES: usize = 60;

/// Samples per rate: enough that bursts of delivery even out.
const RATE_SAMPLES: usize = 4;

/// Time between lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// A moment of a run.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Who sends.
    pub profile: String,
    /// Since the beginning.
    pub elapsed: Duration,
    /// When the run ends at the latest.
    pub time_max: Option<Duration>,
    /// Delivered so far.
    pub bytes: u64,
    /// To be delivered.
    pub file_bytes: u64,
    /// Round-trip time as the sender measures it.
    pub rtt_ms: f64,
    /// Lost on the path, as the path knows it.
    pub wire_loss_percent: f64,
    /// Packets that found the path's queue full.
    pub queue_drops: u64,
    /// What was sent beyond the data, of all that was sent: what it is called, and its share.
    pub extra_percent: (&'static str, f64),
}

/// Where it is shown.
#[derive(Debug)]
pub struct Display {
    mode: Mode,
    /// By profile: one after the other, or side by side.
    states: Mutex<BTreeMap<String, State>>,
}

#[derive(Debug)]
enum Mode {
    /// For programs: nothing but the result.
    Silent,
    /// Standard output is no terminal.
    Lines,
    /// Drawn over and over in place, one for each run that goes on.
    Panels(MultiProgress),
}

#[derive(Debug, Default)]
struct State {
    recent: VecDeque<(Duration, u64)>,
    curve: VecDeque<f64>,
    last_line: Option<Duration>,
    panel: Option<ProgressBar>,
}

impl Display {
    pub(super) fn new(is_silent: bool) -> Self {
        let mode = if is_silent {
            Mode::Silent
        } else if std::io::stdout().is_terminal() {
            Mode::Panels(MultiProgress::with_draw_target(ProgressDrawTarget::stdout()))
        } else {
            Mode::Lines
        };
        Self { mode, states: Mutex::default() }
    }

    /// Prints a line that stays.
    pub(super) fn say(&self, text: &str) {
        match &self.mode {
            Mode::Silent => {}
            Mode::Lines => println!("{text}"),
            Mode::Panels(panels) => panels.suspend(|| println!("{text}")),
        }
    }

    /// Shows a moment.
    pub fn show(&self, sample: &Sample) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states.entry(sample.profile.clone()).or_default();
        let rate = state.rate_mbps(sample);
        match &self.mode {
            Mode::Silent => {}
            Mode::Lines => {
                if state.is_line_due(sample.elapsed) {
                    println!(
                        "{:<9} {:6.1} s  {}",
                        sample.profile,
                        sample.elapsed.as_secs_f64(),
                        sample.facts(rate)
                    );
                }
            }
            Mode::Panels(panels) => {
                let curve = state.curve();
                let panel = state.panel.get_or_insert_with(|| panels.add(new_panel(sample.file_bytes)));
                panel.set_prefix(sample.profile.clone());
                panel.set_position(sample.bytes);
                panel.set_message(format!("{}\n{curve}", sample.facts(rate)));
            }
        }
    }

    /// The run is over: the panel goes, and a line about the whole run stays.
    pub fn end(&self, profile: &str, outcome: &str) {
        let state = self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(profile);
        if let Some(panel) = state.and_then(|state| state.panel) {
            panel.finish_and_clear();
        }
        self.say(&format!("{profile:<9} {outcome}"));
    }
}

fn new_panel(file_bytes: u64) -> ProgressBar {
    let panel = ProgressBar::new(file_bytes);
    let style = ProgressStyle::with_template("{prefix:9.bold} {bar:60.cyan/dim} {percent:>3} %\n{msg}");
    panel.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"));
    panel
}

impl Sample {
    fn facts(&self, rate_mbps: f64) -> String {
        let left = match self.time_max {
            Some(max) => format!("  {} left", units::duration(max.saturating_sub(self.elapsed))),
            None => String::new(),
        };
        let drops = match self.queue_drops {
            0 => String::new(),
            count => format!("  drops {count}"),
        };
        format!(
            "{:>9}  {:>9}  RTT {:>3.0} ms  lost {:>4.1} %  {} {:>4.1} %{drops}{left}",
            units::bytes(self.bytes),
            units::rate(rate_mbps),
            self.rtt_ms,
            self.wire_loss_percent,
            self.extra_percent.0,
            self.extra_percent.1
        )
    }
}

impl State {
    fn rate_mbps(&mut self, sample: &Sample) -> f64 {
        let (then, before) = self.recent.front().copied().unwrap_or_default();
        let rate = units::mbps(sample.bytes.saturating_sub(before), sample.elapsed.saturating_sub(then));
        self.recent.push_back((sample.elapsed, sample.bytes));
        if self.recent.len() > RATE_SAMPLES {
            self.recent.pop_front();
        }
        self.curve.push_back(rate);
        if self.curve.len() > CURVE_SAMPLES {
            self.curve.pop_front();
        }
        rate
    }

    fn curve(&self) -> String {
        const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let top = self.curve.iter().copied().fold(1e-3, f64::max);
        self.curve.iter().map(|rate| STEPS[((rate / top * 7.0).round() as usize).min(7)]).collect()
    }

    fn is_line_due(&mut self, elapsed: Duration) -> bool {
        let is_due = self.last_line.is_none_or(|last| elapsed >= last + LINE_INTERVAL);
        if is_due {
            self.last_line = Some(elapsed);
        }
        is_due
    }
}

/// A horizontal bar for a share between 0 and 1, in eighths of a character.
pub(super) fn gauge(share: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let bar = "█".repeat(eighths / 8) + PARTS[eighths % 8];
    let pad = width - bar.chars().count().min(width);
    bar + &" ".repeat(pad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_are_as_wide_as_they_should_be() {
        for (share, bar) in [(0.0, "    "), (0.5, "██  "), (1.0, "████"), (7.0, "████"), (0.03, "▏   ")]
        {
            assert_eq!(gauge(share, 4), bar);
        }
    }

    #[test]
    fn the_rate_is_over_the_last_samples() {
        let mut state = State::default();
        let mut sample = Sample {
            profile: "auto".into(),
            elapsed: Duration::ZERO,
            time_max: None,
            bytes: 0,
            file_bytes: 1,
            rtt_ms: 0.0,
            wire_loss_percent: 0.0,
            queue_drops: 0,
            extra_percent: ("repair", 0.0),
        };
        let mut rates = Vec::new();
        for second in 1..=10u64 {
            sample.elapsed = Duration::from_secs(second);
            sample.bytes = second.min(5) * 125_000;
            rates.push(state.rate_mbps(&sample));
        }
        assert_eq!(rates[0], 1.0);
        assert_eq!(rates[9], 0.0, "nothing has come for longer than the samples reach back");
        assert_eq!(state.curve().chars().count(), 10);
    }
}
