//! Which settings do not go together, and why.

use super::codes::{Cover, chosen_code};
use super::error::ProfileError;
use super::modules::{awaits_timeout, block_symbols_max};
use super::policies::chosen_policy;
use super::values::Values;

/// Shortest packets that may be asked for.
const PACKET_BYTES_MIN: u64 = 600;

/// An error with its reason where `values` cannot work.
pub(super) fn check(values: &Values) -> Result<(), ProfileError> {
    code_and_policy(values)?;
    lengths(values)?;
    fountain(values)?;
    let refuse = |reason: &str| Err(ProfileError::Conflict(reason.into()));
    if values.word("loss") == "oracle" && values.number("p") == 0.0 && values.word("policy") != "arq" {
        return refuse("loss=oracle is told the loss rate: give it, for example p=0.05");
    }
    if values.word("timeout") == "rto" {
        let [initial, min, max] = ["rto_initial", "rto_min", "rto_max"].map(|name| values.number(name));
        if min > max || initial > max {
            return refuse("rto_max is the largest timeout: rto_initial and rto_min cannot be above it");
        }
    }
    if awaits_timeout(values) && values.word("timeout") != "rto" {
        return refuse("rescue=0 leaves a lost retransmission to TCP's timeout: it needs timeout=rto");
    }
    if (1..PACKET_BYTES_MIN).contains(&values.integer("packet")) {
        return refuse(
            "packet: a packet of less than 600 bytes is mostly header; 0 is what the path carries",
        );
    }
    if chosen_code(values).cover == Cover::Fountain && (1..1200).contains(&values.integer("packet")) {
        return refuse("code=dfcp: its segments have one length, which needs packets of 1200 bytes");
    }
    if values.flag("masked") && values.word("cc") == "tcp-fec" {
        return refuse("cc=tcp-fec hears of repaired losses by itself: masked=1 would hide them twice");
    }
    Ok(())
}

fn code_and_policy(values: &Values) -> Result<(), ProfileError> {
    let policy = chosen_policy(values);
    if policy.covers.contains(&chosen_code(values).cover) {
        return Ok(());
    }
    let [name, code] = ["policy", "code"].map(|setting| values.word(setting));
    Err(ProfileError::Conflict(format!("policy={name} needs {}; code is {code}", policy.needs)))
}

/// Blocks as long as the code can make them, with room for repair.
fn lengths(values: &Values) -> Result<(), ProfileError> {
    if values.word("sizing") == "window" && values.integer("kmin") > values.integer("kmax") {
        return Err(ProfileError::Conflict(
            "kmin is the shortest block and kmax the longest: kmin is larger".into(),
        ));
    }
    let (longest, code) = (block_symbols_max(values), values.word("code"));
    match chosen_code(values).block_max {
        Some((max, reason)) if longest > max => Err(ProfileError::Conflict(format!(
            "code={code} takes blocks of at most {max} source symbols, not {longest}: {reason}"
        ))),
        _ => Ok(()),
    }
}

fn fountain(values: &Values) -> Result<(), ProfileError> {
    if values.word("policy") != "fountain" {
        return Ok(());
    }
    let refuse = |reason: &str| Err(ProfileError::Conflict(reason.into()));
    let [coding, decoding] = ["coding", "decoding"].map(|name| values.flag(name));
    if coding != decoding {
        return refuse("coding=0 and decoding=0 go together: with one alone no data would arrive");
    }
    if !coding && values.word("code") != "dfcp" {
        return refuse("coding=0 leaves out the time of DFCP's code: it needs code=dfcp");
    }
    let is_unlimited =
        values.word("cc") == "unlimited" && values.number("rate") == 0.0 && values.integer("inctokens") == 0;
    if values.flag("persistent") && is_unlimited {
        return refuse(
            "persistent=1 sends until an ACK comes: it needs rate= (or inctokens=), or another cc=",
        );
    }
    Ok(())
}
