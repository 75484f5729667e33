//! Programs whose bytes go through the gateway over a network on which somebody meddles: copies of their
//! packets come from a false address, ECN bits are eaten, ports die, the link is thin. All bytes come back,
//! in order, and never stand still for long.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fulmar_cli::relay::{Copying, Meddling, Relay, RelayConfig};
use fulmar_net::LinkConfig;
use fulmar_units::Rate;

use crate::chance::Chance;
use crate::field::Field;
use crate::process;

/// Longest standstill: twice what is promised where a port dies (docs/internals/tunnel-protocol.md), for a
/// machine on which all this goes on at once; to be added is [`LATE`] times how late that machine was.
const STANDSTILL_MAX: Duration = Duration::from_secs(6);
const LATE: u32 = 4;

/// From the start of the program to the first byte back over the thin network: 1.4 s where nothing else
/// happens, and what a loss of the first packet adds.
const THIN_FIRST_MAX: Duration = Duration::from_secs(8);

/// Nothing takes longer; what does is hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// A port lives as long as this.
const PORT_LIFE: Duration = Duration::from_secs(3);

/// Parts of a flow, one each tenth of a second.
const PARTS: usize = 80;
const PAUSE: Duration = Duration::from_millis(100);

/// What is wrong with a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Copies of all packets, or of some, come from a false address before them.
    Copies(u32),
    EatsEcn,
    PortsDie,
    Thin,
}

/// One for each traveller.
const FAULTS: [Fault; 5] =
    [Fault::Copies(1), Fault::Copies(10), Fault::EatsEcn, Fault::PortsDie, Fault::Thin];

impl Fault {
    fn link(self) -> LinkConfig {
        match self {
            Self::Thin => LinkConfig::new(Rate::from_bits_per_second(64_000), Duration::from_millis(150)),
            _ => LinkConfig::new(Rate::from_bits_per_second(50_000_000), Duration::from_millis(10)),
        }
    }

    fn meddling(self) -> Meddling {
        match self {
            Self::Copies(every) => {
                let from = IpAddr::from([127, 0, 0, 9]);
                Meddling { copying: Some(Copying { every, from }), ..Meddling::default() }
            }
            Self::EatsEcn => Meddling { eats_ecn: true, ..Meddling::default() },
            Self::PortsDie => Meddling { port_life: Some(PORT_LIFE), ..Meddling::default() },
            Self::Thin => Meddling::default(),
        }
    }

    fn part_bytes(self) -> usize {
        if self == Self::Thin { 100 } else { 5000 }
    }
}

/// The names of their homes.
pub(crate) fn names() -> Vec<String> {
    (0..FAULTS.len()).map(|number| format!("traveller{number}")).collect()
}

/// Sends them on their way, again and again.
pub(crate) fn set_out(field: &Arc<Field>, gate: SocketAddr, seed: u64) -> io::Result<Vec<JoinHandle<()>>> {
    let echo = echo()?;
    let travels = names().into_iter().zip(FAULTS).enumerate().map(|(number, (name, fault))| {
        let (field, home) = (Arc::clone(field), field.folder.join(name));
        let mut chance = Chance::new(seed.wrapping_mul(3000) + number as u64);
        std::thread::spawn(move || {
            while !field.is_over() {
                let traveller = Traveller { field: &field, home: &home, fault };
                match traveller.travel(gate, echo, &mut chance) {
                    Ok(()) => field.verdict.count(format!("flows that went through whole: {fault:?}")),
                    Err(why) => field.verdict.complain(format!("a flow over {fault:?}: {why}")),
                }
            }
        })
    });
    Ok(travels.collect())
}

/// Gives everybody back what comes, at once.
fn echo() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || io::copy(&mut &stream, &mut &stream));
        }
    });
    Ok(address)
}

struct Traveller<'a> {
    field: &'a Field,
    home: &'a PathBuf,
    fault: Fault,
}

/// Ends with whoever holds it.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Traveller<'_> {
    /// One program, one connection, one flow. The fault is there from the first packet on, or comes when
    /// bytes flow.
    fn travel(&self, gate: SocketAddr, echo: SocketAddr, chance: &mut Chance) -> Result<(), String> {
        let link = self.fault.link();
        let relay = Relay::start(RelayConfig::new(gate, link.clone(), link)).map_err(|e| e.to_string())?;
        let is_from_the_start = chance.is_one_in(2);
        if is_from_the_start {
            relay.meddle(self.fault.meddling());
        }
        let (begin, late) = (Instant::now(), self.field.late.so_far());
        let mut command = Command::new(&self.field.program);
        let (gateway, spec) = (relay.local_addr().to_string(), format!("127.0.0.1:0:{echo}"));
        command.args(["forward", &gateway, "--json", "--accept-new", "--connect-timeout", "30", "-L", &spec]);
        command.env("FULMAR_HOME", self.home).env_remove("RUST_LOG").stderr(Stdio::piped());
        let (child, line) = process::ready(&mut command).map_err(|error| error.to_string())?;
        let _program = Program(child);
        let at = line["forwards"][0]["at"].as_str().ok_or_else(|| format!("no address: {line}"))?;
        let stream = TcpStream::connect(at).map_err(|error| error.to_string())?;
        let content = chance.bytes(PARTS * self.fault.part_bytes());
        let writing = write(&stream, content.clone(), self.fault.part_bytes()).map_err(|e| e.to_string())?;
        let read = self.read(stream, &content, || {
            let (took, late) = (begin.elapsed(), self.field.late.so_far() - late);
            if self.fault == Fault::Thin && took > THIN_FIRST_MAX + LATE * late {
                return Err(format!(
                    "the first byte came back after {took:?}; the machine was {late:?} late"
                ));
            }
            relay.meddle(self.fault.meddling());
            Ok(())
        });
        let _ = writing.join();
        let how = if is_from_the_start { "from the start" } else { "later" };
        read.map_err(|why| format!("{why} ({how}, {:?} after the start)", begin.elapsed()))?;
        // What was not done is not judged.
        let meddled = relay.stop().map_err(|error| error.to_string())?.meddled_packets;
        match meddled {
            0 if self.fault.meddling() != Meddling::default() => Err("nobody has meddled".into()),
            _ => Ok(()),
        }
    }

    /// Takes what comes back, to its end; `on_first` when the first byte has come.
    fn read(
        &self,
        mut stream: TcpStream,
        content: &[u8],
        on_first: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        let (mut read, mut on_first) = (0, Some(on_first));
        let (mut heard_at, mut late) = (Instant::now(), self.field.late.so_far());
        let mut buffer = vec![0; 1 << 16];
        loop {
            let so_far = format!("{read} of {} bytes have come back", content.len());
            let count = stream.read(&mut buffer).map_err(|error| format!("{error}: {so_far}"))?;
            let (silent, late_now) = (heard_at.elapsed(), self.field.late.so_far());
            if on_first.is_none() && silent > STANDSTILL_MAX + LATE * (late_now - late) {
                let late = late_now - late;
                return Err(format!("{silent:?} of standstill, the machine was {late:?} late: {so_far}"));
            }
            if count == 0 {
                return if read == content.len() { Ok(()) } else { Err(format!("it ends: {so_far}")) };
            }
            if content.get(read..read + count) != Some(&buffer[..count]) {
                return Err(format!("other bytes than were sent: {so_far}"));
            }
            (read, heard_at, late) = (read + count, Instant::now(), late_now);
            on_first.take().map_or(Ok(()), |on_first| on_first())?;
        }
    }
}

/// Writes part after part, with pauses, and its end.
fn write(stream: &TcpStream, content: Vec<u8>, part_bytes: usize) -> io::Result<JoinHandle<()>> {
    let mut stream = stream.try_clone()?;
    Ok(std::thread::spawn(move || {
        for part in content.chunks(part_bytes) {
            if stream.write_all(part).is_err() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }))
}
