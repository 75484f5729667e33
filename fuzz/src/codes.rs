//! Feeds a decoder from bytes, half honest and half hostile, and checks what it says.

use std::collections::BTreeSet;

use fulmar_fec::{Code, CodeError, Cover, DecoderLimits, Geometry, RepairKey, SymbolId, Window};
use fulmar_systems::codes::by_name;

const SYMBOL: usize = 24;
const COUNT: usize = 64;
const LIMITS: DecoderLimits = DecoderLimits::new(48, 16);

/// Takes the input apart.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Mostly a small number, sometimes a large one.
    fn id(&mut self) -> Option<u64> {
        Some(match self.byte()? {
            255 => u64::MAX - u64::from(self.byte()?),
            254 => u64::from(self.byte()?) << 14,
            small => u64::from(small) % COUNT as u64,
        })
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = usize::from(self.byte()?) % (SYMBOL + 2);
        (0..len).map(|_| self.byte()).collect()
    }
}

/// Runs the decoder of the code of this name. Nothing may panic, memory is bounded, and as long as everything
/// was honest, everything recovered is right and comes once.
pub fn decode(name: &str, data: &[u8]) {
    let code = by_name(name, 16).expect("a known name");
    let source: Vec<Vec<u8>> = (0..COUNT).map(|i| vec![i as u8 ^ 0x5A; 1 + i % SYMBOL]).collect();
    let (mut encoder, mut decoder) = (code.encoder(SYMBOL), code.decoder(SYMBOL, LIMITS));
    let (mut input, mut is_honest, mut out, mut recovered) = (Input(data), true, Vec::new(), BTreeSet::new());
    while step(&*code, &source, &mut *encoder, &mut *decoder, &mut input, &mut is_honest).is_some() {
        while let Some(id) = decoder.poll_recovered(&mut out) {
            assert!(decoder.is_decoded(id) && recovered.insert(id), "{id:?} came twice");
            if is_honest {
                let symbol = &source[id.0 as usize];
                assert!(
                    out.starts_with(symbol) && out[symbol.len()..].iter().all(|byte| *byte == 0),
                    "{id:?} is wrong"
                );
            }
        }
        assert!(decoder.memory_bytes() <= LIMITS.memory_bytes_max);
        assert!(decoder.decoded_below() <= decoder.seen_below());
    }
}

/// One event; `None` at the end of the input.
fn step(
    code: &dyn Code,
    source: &[Vec<u8>],
    encoder: &mut dyn fulmar_fec::Encoder,
    decoder: &mut dyn fulmar_fec::Decoder,
    input: &mut Input<'_>,
    is_honest: &mut bool,
) -> Option<()> {
    let kind = input.byte()?;
    let window = Window { first: SymbolId(input.id()?), len: u32::from(input.byte()? % 20) };
    let key = match code.shape().id.0 {
        1 => RepairKey(u32::from(input.byte()?) << 16 | u32::from(input.byte()?)),
        _ => RepairKey(u32::from(input.byte()?)),
    };
    let set: Vec<SymbolId> = (0..kind % 5).filter_map(|_| input.id()).map(SymbolId).collect();
    let cover = if set.is_empty() { Cover::Window(window) } else { Cover::Set(&set) };
    match kind / 32 {
        0 => decoder.release(window.first),
        1 => {
            *is_honest = false;
            let _ = decoder.on_repair(cover, key, &input.bytes()?);
        }
        2 => {
            *is_honest = false;
            let _ = decoder.on_source(window.first, &input.bytes()?);
        }
        3 | 4 => {
            let id = window.first.0 % COUNT as u64;
            let _ = decoder.on_source(SymbolId(id), &source[id as usize]);
        }
        _ => {
            let mut repair = [0; SYMBOL];
            if let Ok(len) = encoder.repair(cover, key, &source.to_vec(), &mut repair) {
                let result = decoder.on_repair(cover, key, &repair[..len]);
                // Covers that overlap a block on its way are refused, although the encoder makes them.
                let is_block = matches!(code.shape().geometry, Geometry::Block { .. });
                let is_overlap = is_block && result == Err(CodeError::BadCover);
                assert!(result.is_ok() || !*is_honest || is_overlap, "refused what the encoder made");
            }
        }
    }
    let _ = decoder.deficit(Window { len: window.len.max(1), ..window });
    Some(())
}
