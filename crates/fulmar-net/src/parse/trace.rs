//! Rates and losses over time: steps in one line, recorded traces in files.

use alloc::vec::Vec;
use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::{ParseError, duration, rate};
use crate::{Intervals, LinkRate, LossTrace, RateTrace};

/// A rate, or `unlimited`, or a rate that changes on a schedule ([`rate_steps`]).
///
/// # Errors
/// If the text is none of these.
pub fn link_rate(text: &str) -> Result<LinkRate, ParseError> {
    match text.trim() {
        "unlimited" | "none" => Ok(LinkRate::Unlimited),
        _ => rate_steps(text),
    }
}

/// A rate that changes on a schedule, in one line: `100M,5s:10M,10s:100M`; a last part `15s:repeat` makes it
/// start again. One rate
/// alone lasts for ever.
///
/// # Errors
/// If a part is not understood, or the times are not in order.
pub fn rate_steps(text: &str) -> Result<LinkRate, ParseError> {
    let error =
        || ParseError::new(text, "a rate, or rates with their times in order such as 100M,5s:10M,10s:100M");
    let mut parts = text.split(',').map(str::trim);
    let first = rate(parts.next().unwrap_or_default())?;
    let (mut steps, mut period) = (Vec::from([(Duration::ZERO, first)]), None);
    for part in parts {
        let (start, value) = part.split_once(':').filter(|_| period.is_none()).ok_or_else(error)?;
        match value.trim() {
            "repeat" => period = Some(duration(start)?),
            value => steps.push((duration(start)?, rate(value)?)),
        }
    }
    if steps.len() == 1 && period.is_none() {
        return Ok(LinkRate::Constant(first));
    }
    RateTrace::new(steps, period).map(LinkRate::Trace).map_err(|_| error())
}

/// A rate over time, a line per step: when it starts, and the rate. A last line `TIME repeat` makes it start
/// again.
///
/// ```text
/// # a train journey
/// 0s    20M
/// 12.5s 800k
/// 15s   0
/// 20s   repeat
/// ```
///
/// # Errors
/// If a line is not understood, or the steps are not in order from zero.
pub fn rate_trace(text: &str) -> Result<RateTrace, ParseError> {
    let mut steps: Vec<(Duration, Rate)> = Vec::new();
    let mut period = None;
    for line in
        text.lines().map(|line| super::model::without_comment(line).trim()).filter(|line| !line.is_empty())
    {
        let error = || ParseError::new(line, "a step of a rate trace such as '12.5s 800k'");
        let (start, value) = line.split_once(char::is_whitespace).ok_or_else(error)?;
        let start = duration(start)?;
        if period.is_some() {
            return Err(ParseError::new(line, "expected behind the line that repeats the trace"));
        }
        match value.trim() {
            "repeat" => period = Some(start),
            value => steps.push((start, rate(value)?)),
        }
    }
    RateTrace::new(steps, period).map_err(|_| {
        ParseError::new(text, "a rate trace: steps in order of time, the first at 0s, then perhaps a repeat")
    })
}

/// A trace of delivery opportunities in the format of mahimahi: each line is the millisecond at which 1500
/// bytes may
/// pass; the last line is also the period. Becomes a rate per `step`.
///
/// # Errors
/// If a line is not a whole number, the lines are not in order, or there is none.
pub fn mahimahi_trace(text: &str, step: Duration) -> Result<RateTrace, ParseError> {
    let expected = "a mahimahi trace: one millisecond per line, in order";
    let step_ms = u64::try_from(step.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut millis: Vec<u64> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let at = line.parse().map_err(|_| ParseError::new(line, expected))?;
        if millis.last().is_some_and(|&last| at < last) {
            return Err(ParseError::new(line, expected));
        }
        millis.push(at);
    }
    let last = *millis.last().filter(|&&last| last > 0).ok_or_else(|| ParseError::new(text, expected))?;
    // An opportunity at t belongs to the time before it. So many steps that memory matters are a mistake.
    let count = last.div_ceil(step_ms);
    if count > 10_000_000 {
        return Err(ParseError::new(text, expected));
    }
    let steps = (0..count).map(|index| {
        let (start, end) = (index * step_ms, ((index + 1) * step_ms).min(last));
        let below = |limit: u64| millis.partition_point(|&at| at <= limit) as u64;
        let before = if index == 0 { 0 } else { below(start) };
        let bytes = (below(end) - before) * 1500;
        (Duration::from_millis(start), Rate::from_bytes_per_second(bytes * 1000 / (end - start)))
    });
    RateTrace::new(steps.collect(), Some(Duration::from_millis(last)))
        .map_err(|_| ParseError::new(text, expected))
}

/// A trace of losses in the manner of mahimahi: each line is a millisecond in which everything is lost; the
/// last line is no loss but the
/// length of the trace, after which it begins again.
///
/// # Errors
/// If a line is not a whole number, the lines are not in order, or there is none.
pub fn mahimahi_loss(text: &str) -> Result<LossTrace, ParseError> {
    let expected = "a loss trace: one millisecond per line, in order, the last the length of the trace";
    let mut millis: Vec<u64> = Vec::new();
    for line in text.lines().map(|line| super::model::without_comment(line).trim()) {
        if line.is_empty() {
            continue;
        }
        let at = line.parse().map_err(|_| ParseError::new(line, expected))?;
        if millis.last().is_some_and(|&last| at < last) || at > u64::MAX / 2_000_000 {
            return Err(ParseError::new(line, expected));
        }
        millis.push(at);
    }
    let period = millis.pop().filter(|&period| period > 0).ok_or_else(|| ParseError::new(text, expected))?;
    let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
    let lost = Intervals::new(millis.into_iter().map(|ms| (at(ms), at((ms + 1).min(period)))));
    Ok(LossTrace { lost, period: Duration::from_millis(period) })
}
