//! Parts of a link in words: queues, losses, black-outs, stalls, policers.

use alloc::vec::Vec;
use core::time::Duration;

use fulmar_units::Instant;

use super::{ParseError, duration, milli, probability, queue_limit, rate};
use crate::{
    CodelConfig, DrrConfig, FqCodelConfig, Intervals, Loss, LossPattern, Periodic, PoissonBursts, Policer,
    Probability, QueueConfig, QueueLimit, RedConfig, SfqConfig, Stalls, TwoState, WfqConfig,
};

/// A queue: the name of a discipline, and behind a colon what it may hold (one bandwidth-delay product if left out).
///
/// `droptail:1bdp`, `droptail:100p`, `drr`, `sfq:64KiB`, `wfq`, `red`, `codel`, `fq_codel:1000p`, `priority:500p`; a limit
/// alone is drop-tail. Other parameters have the defaults of their configuration types.
///
/// # Errors
/// If the name or the limit is unknown.
pub fn queue(text: &str) -> Result<QueueConfig, ParseError> {
    let error = || {
        ParseError::new(
            text,
            "a queue such as droptail:1bdp, drr:100p, sfq, wfq, red, codel, fq_codel or priority",
        )
    };
    if let Ok(limit) = queue_limit(text) {
        return Ok(QueueConfig::DropTail(limit));
    }
    let (name, limit) = match text.trim().split_once(':') {
        Some((name, limit)) => (name, queue_limit(limit)?),
        None => (text.trim(), QueueLimit::ONE_BDP),
    };
    Ok(match name {
        "droptail" | "drop-tail" | "fifo" => QueueConfig::DropTail(limit),
        "drr" => QueueConfig::Drr(DrrConfig { limit, quantum_bytes: 1500 }),
        "sfq" => QueueConfig::Sfq(SfqConfig { limit, buckets: 128 }),
        "wfq" => QueueConfig::Wfq(WfqConfig { limit, weights: Default::default() }),
        "red" => QueueConfig::Red(RedConfig::for_limit(limit)),
        "codel" => QueueConfig::Codel(CodelConfig { limit, ..CodelConfig::default() }),
        "fq_codel" | "fq-codel" => QueueConfig::FqCodel(FqCodelConfig { limit, ..FqCodelConfig::default() }),
        "priority" => QueueConfig::Priority(limit),
        _ => return Err(error()),
    })
}

/// A loss model.
///
/// | text | meaning |
/// |---|---|
/// | `none` | no loss |
/// | `5%`, `0.05` | independent, with this probability |
/// | `5%/10` | two-state: this loss rate, in bursts of 10 on average |
/// | `periodic:20ms/10ms`, `periodic:20ms/10ms/80%` | of every 20 ms the first 10 lose everything, or 80 % |
/// | `bursts:100ms/5ms`, `bursts:100ms/5ms/80%` | bursts start every 100 ms on average, at random, and last 5 ms |
/// | `pattern:0010110` | packet by packet, `1` is lost, repeated |
///
/// # Errors
/// If the text is none of these, or says something impossible.
pub fn loss(text: &str) -> Result<Loss, ParseError> {
    let error = || {
        ParseError::new(
            text,
            "a loss model such as 5%, 5%/10 (bursts), periodic:20ms/10ms or bursts:100ms/5ms",
        )
    };
    match text.trim().split_once(':') {
        None if text.trim() == "none" => Ok(Loss::None),
        None => match text.split_once('/') {
            Some((p, burst)) => bursty(text, probability(p)?, milli(burst)?),
            None => Ok(Loss::bernoulli(probability(text)?)),
        },
        Some(("periodic", rest)) => {
            let (period, on, loss) = times_and_loss(rest).ok_or_else(error)?;
            Ok(Loss::Periodic(Periodic { period, on, offset: Duration::ZERO, loss }))
        }
        Some(("bursts", rest)) => {
            let (interval_mean, length, loss) = times_and_loss(rest).ok_or_else(error)?;
            Ok(Loss::PoissonBursts(PoissonBursts { interval_mean, length, loss }))
        }
        Some(("pattern", rest)) => loss_pattern(rest).map(Loss::Pattern),
        Some(_) => Err(error()),
    }
}

fn bursty(text: &str, p: Probability, burst_milli: u32) -> Result<Loss, ParseError> {
    if p.is_zero() {
        return Ok(Loss::None);
    }
    let impossible =
        "a possible burst loss: with rate p and mean burst E, E is at least 1 and p at most E / (E + 1)";
    TwoState::new(p, burst_milli).map(Loss::TwoState).map_err(|_| ParseError::new(text, impossible))
}

/// `TIME/TIME` or `TIME/TIME/PROBABILITY`.
fn times_and_loss(text: &str) -> Option<(Duration, Duration, Probability)> {
    let mut parts = text.split('/');
    let first = duration(parts.next()?).ok()?;
    let second = duration(parts.next()?).ok()?;
    let loss = parts.next().map_or(Some(Probability::ONE), |p| probability(p).ok())?;
    (parts.next().is_none() && !first.is_zero()).then_some((first, second, loss))
}

/// Recorded losses: a `0` or `1` per packet, space and line ends between as one likes, `#` starts a comment.
///
/// # Errors
/// If there is anything else in it, or nothing.
pub fn loss_pattern(text: &str) -> Result<LossPattern, ParseError> {
    let error = |line| ParseError::new(line, "a loss trace: one 0 (arrived) or 1 (lost) per packet");
    let mut entries = Vec::new();
    for line in text.lines() {
        for c in without_comment(line).chars().filter(|c| !c.is_whitespace()) {
            entries.push(match c {
                '0' => false,
                '1' => true,
                _ => return Err(error(line)),
            });
        }
    }
    if entries.is_empty() { Err(error(text)) } else { Ok(LossPattern::new(entries)) }
}

/// Intervals of time: `10s-12s,30s-30.5s`.
///
/// # Errors
/// If an interval has no end or ends before it starts.
pub fn intervals(text: &str) -> Result<Intervals, ParseError> {
    let interval = |part: &str| {
        let error = || ParseError::new(part, "an interval such as 10s-12s");
        let (start, end) = part.split_once('-').ok_or_else(error)?;
        let (start, end) = (Instant::ZERO + duration(start)?, Instant::ZERO + duration(end)?);
        if start < end { Ok((start, end)) } else { Err(error()) }
    };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(interval).collect::<Result<Vec<_>, _>>().map(Intervals::new)
}

/// Stalls: `500ms/100ms` (every 500 ms on average, at random, for 100 ms), `500ms/1ms-100ms` (for so long, at random), or at given
/// times as [`intervals`] has them.
///
/// # Errors
/// If the text is neither.
pub fn stalls(text: &str) -> Result<Stalls, ParseError> {
    let Some((interval, length)) = text.split_once('/') else {
        let times = intervals(text)?;
        return Ok(if times.is_empty() { Stalls::None } else { Stalls::At(times) });
    };
    let (shortest, longest) = length.split_once('-').unwrap_or((length, length));
    let (shortest, longest) = (duration(shortest)?, duration(longest)?);
    let interval_mean = duration(interval)?;
    if interval_mean.is_zero() || shortest > longest {
        return Err(ParseError::new(text, "stalls such as 500ms/100ms, 500ms/1ms-100ms or 5s-5.5s"));
    }
    Ok(Stalls::Random { interval_mean, shortest, longest })
}

/// A policer: `20M/64kB`, its rate and how many bytes may come at once.
///
/// # Errors
/// If the text is none, or lets no packet of 1500 bytes pass.
pub fn policer(text: &str) -> Result<Policer, ParseError> {
    let error =
        || ParseError::new(text, "a policer such as 20M/64kB: a rate and a burst of at least 1500 bytes");
    let (allowed, burst) = text.split_once('/').ok_or_else(error)?;
    let burst_bytes = super::bytes(burst)?;
    if burst_bytes < 1500 { Err(error()) } else { Ok(Policer { rate: rate(allowed)?, burst_bytes }) }
}

pub(super) fn without_comment(line: &str) -> &str {
    line.split_once('#').map_or(line, |(before, _)| before)
}
