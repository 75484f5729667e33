//! A hostile peer made from bytes: any code with any parameters, any symbol size, any limits, anything in any
//! order. Fuzz targets and an ordinary test call it.

use fulmar_fec::*;
use fulmar_systems::codes::from_parameters;

use super::probe::Probe;

/// Work after which a peer has had its say.
const WORK_TOTAL: u64 = 1 << 29;
/// Symbols in a burst, at most.
const BURST_MAX: u64 = 300;
/// Lengths of symbols beside any: the smallest, the limits of codes, packets, the largest datagram.
const SYMBOL_BYTES: [usize; 10] = [1, 16, 62, 63, 1150, 1436, 2048, 2049, 9000, 65_507];
/// The parameters of each code, and one more than the largest of each that is accepted.
const PARAMETERS: [&[u64]; 7] =
    [&[], &[65_536, 4097], &[200, 57], &[4097, 257, 2], &[4097, 257], &[1 << 32, 1 << 32, 1 << 32], &[257]];

/// Takes the input apart; at its end everything is zero.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u64 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        u64::from(*first)
    }

    /// Often small, sometimes at or about a power of two, sometimes anything.
    fn number(&mut self) -> u64 {
        match self.byte() % 8 {
            0..=2 => self.byte(),
            3 => 1 + self.byte() % 4,
            4 => self.byte() << 8 | self.byte(),
            5 => (1u64 << (self.byte() % 64)).wrapping_add(self.byte() % 3).wrapping_sub(1),
            6 => 256 >> (self.byte() % 9),
            _ => (0..4).fold(0, |number, _| number << 8 | self.byte()),
        }
    }

    fn number_u32(&mut self) -> u32 {
        self.number() as u32
    }
}

/// What the peer has to send with.
struct Peer<'a> {
    input: Input<'a>,
    probe: Probe,
    /// Zeros, of which all combinations are consistent, or noise.
    bytes: Vec<u8>,
}

/// Runs a decoder against the peer. No call may do more than it is allowed, hold more than it is allowed, or
/// panic.
pub fn drive(data: &[u8]) {
    let mut input = Input(data);
    let id = input.byte() as usize % PARAMETERS.len();
    let is_fair = !input.byte().is_multiple_of(8);
    let parameter = |end: &u64| input.number() % if is_fair { *end } else { 1 << 32 };
    let parameters: Vec<u32> = PARAMETERS[id].iter().map(parameter).map(|number| number as u32).collect();
    let Ok(code) = from_parameters(CodeId(id as u8), &parameters) else { return };
    let symbol_bytes = match input.byte() % 4 {
        0 => input.number() as usize % 65_536,
        _ => SYMBOL_BYTES[input.byte() as usize % SYMBOL_BYTES.len()],
    };
    let mut limits = DecoderLimits::new(input.number_u32() % 5000, input.number_u32() % 1100);
    if input.byte() % 2 == 0 {
        limits = DecoderLimits { memory_bytes_max: input.number() as usize % (64 << 20), ..limits };
    }
    let noise = input.byte() % 4 == 0;
    let bytes = (0..symbol_bytes).map(|i| if noise { (i * 31 + i / 7) as u8 } else { 0 }).collect();
    let probe = Probe::new(&*code, symbol_bytes, limits, || 0.0);
    let mut peer = Peer { input, probe, bytes };
    while !peer.input.0.is_empty() && peer.probe.work_total() < WORK_TOTAL {
        peer.act();
    }
}

impl Peer<'_> {
    /// An id near the lowest undecoded one, or far from it.
    fn id(&mut self) -> u64 {
        let ahead = self.input.number();
        if self.input.byte().is_multiple_of(16) {
            return ahead;
        }
        self.probe.decoded_below().saturating_add(ahead).saturating_sub(self.input.byte() % 8)
    }

    fn len(&mut self) -> usize {
        match self.input.byte() % 8 {
            0 => self.input.number() as usize % (self.bytes.len() + 1),
            _ => self.bytes.len(),
        }
    }

    fn act(&mut self) {
        let (kind, first, len) = (self.input.byte() % 8, self.id(), self.len());
        match kind {
            0 => self.probe.release(first),
            1 => drop(self.probe.source(first, &self.bytes[..len])),
            2 | 3 => {
                let (window, key) = (self.window(first), self.input.number_u32());
                let _ = self.probe.repair(Cover::Window(window), key, &self.bytes[..len]);
            }
            4 => {
                let mut ids: Vec<SymbolId> =
                    (0..self.input.byte() % 64).map(|_| SymbolId(self.id())).collect();
                ids.sort();
                let key = self.input.number_u32();
                let _ = self.probe.repair(Cover::Set(&ids), key, &self.bytes[..len]);
            }
            5 => {
                let (count, step) = (self.input.number() % BURST_MAX, 1 + self.input.byte() % 4);
                for id in (0..count).map(|n| first.saturating_add(n * step)) {
                    let _ = self.probe.source(id, &self.bytes[..len]);
                }
            }
            _ => self.burst(first, len),
        }
        let window = Window { first: SymbolId(self.id()), len: self.input.number_u32() };
        self.probe.deficit(window.first.0, window.len);
    }

    fn window(&mut self, first: u64) -> Window {
        Window { first: SymbolId(first), len: self.input.number_u32() }
    }

    /// Repair symbols over a window that stays, or moves, or grows, with keys one after the other.
    fn burst(&mut self, first: u64, len: usize) {
        let (mut window, mut key) = (self.window(first), self.input.number_u32());
        let (count, moves, grows) =
            (self.input.number() % BURST_MAX, self.input.byte() % 3, self.input.byte() % 2);
        for _ in 0..count {
            let _ = self.probe.repair(Cover::Window(window), key, &self.bytes[..len]);
            window.first.0 = window.first.0.saturating_add(moves * u64::from(window.len.min(1 << 12)) / 2);
            window.len = window.len.saturating_add(grows as u32);
            key = key.wrapping_add(1);
        }
    }
}
