//! Other programs as transports, on this machine: they time themselves, and nothing is seen of them until the
//! end.

use super::means::Means;
use super::transfer::{Halt, gone, step, stopped, transfer};
use crate::bridge::{LATENESS_P99_MAX, TcpSettings};
use crate::desk::experiment;
use crate::desk::spec::{self, Transport};
use crate::desk::types::{Amount, Ending, Spec, Transfer};
use crate::experiment::Experiment;
use crate::peer::{ChosenPeer, PeerScenario};

/// One transfer of a peer over a bridge of its own.
pub(crate) async fn run(means: &Means, id: &str, spec: &Spec, flow: usize, number: u32) -> Result<(), Halt> {
    let board = &*means.board;
    let scenario = PeerScenario { lateness_p99_max: means.late_max, ..scenario(spec, flow)? };
    let seed = spec.seed + u64::from(number);
    step(board, id, 5);
    let mut stop = board.with(id, |record| record.stop.subscribe()).map_err(|refusal| refusal.message)?;
    let running = tokio::task::spawn_blocking(move || crate::peer::run(&scenario, seed));
    let outcome = tokio::select! {
        outcome = running => outcome.map_err(|error| error.to_string())?,
        // It ends by itself, and soon: peers run for a time.
        () = stopped(&mut stop) => return Err(Halt::Stopped),
    };
    let mut ended: Transfer = transfer(spec, flow, number);
    match outcome {
        Err(reason) => ended.error = Some(reason),
        Ok(outcome) => {
            let found = outcome.flows.first().cloned().unwrap_or_default();
            ended.status = if outcome.valid { Ending::Time } else { Ending::Invalid };
            ended.error = (!outcome.valid).then(|| outcome.remarks.join("; "));
            (ended.received_bytes, ended.goodput_mbps) = (found.received_bytes, found.goodput_mbps);
            ended.time_s = outcome.seconds;
            ended.wire_ratio = found.wire_ratio;
            if let Some(link) = outcome.links.first() {
                (ended.lost_packets, ended.offered_packets) = (gone(link), link.offered);
            }
        }
    }
    board.add_transfer(id, ended);
    Ok(())
}

fn scenario(spec: &Spec, flow: usize) -> Result<PeerScenario, Halt> {
    // A file holds the links that a peer's scenario can hold.
    let text = experiment::write(&Spec { transports: vec!["auto".into()], ..spec.clone() });
    let text = text.map_err(|refusal| refusal.message)?;
    let experiment = Experiment::parse("desk.toml", &text).map_err(|mistake| mistake.to_string())?;
    let (Transport::Peer(name), Amount::Seconds(_)) = (spec::transport(&spec.transports[flow]), spec.amount)
    else {
        return Err(Halt::Failed("a peer sends for so many seconds".into()));
    };
    Ok(PeerScenario {
        peer: ChosenPeer::find(&spec::peers_folder(), name)?,
        link: experiment.link,
        duration: experiment.duration,
        settings: TcpSettings { has_ecn: spec.ecn, ..TcpSettings::default() },
        lateness_p99_max: LATENESS_P99_MAX,
    })
}
