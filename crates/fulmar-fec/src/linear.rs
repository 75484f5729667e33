//! The reference of every linear code: coefficients and Gauss-Jordan elimination written down as plainly as
//! possible.
//!
//! It is slow (maps, one allocation per row) and holds every symbol within its limit. The fast decoders must
//! agree with it on what is *innovative*, *seen* and *decoded*, which [`LinearDecoder`] reports separately as
//! TCP/NC needs them (Sundararajan et al., "Network coding meets TCP", 2009).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use fulmar_gf as gf;

use crate::encode::RowEncoder;
use crate::known::REACH;
use crate::recovered::Recovered;
use crate::rows::{Rows, check_cover, ids};
use crate::{
    Code, CodeError, CodeShape, Cover, Decoder, DecoderLimits, Encoder, Innovation, RepairKey, SymbolId,
    Window,
};

/// Any code that has rows, encoded and decoded by the book.
#[derive(Copy, Clone, Debug)]
pub struct Linear<R> {
    rows: R,
}

impl<R: Rows + Code + Clone + 'static> Linear<R> {
    /// The reference of `code`.
    pub fn new(code: R) -> Self {
        Self { rows: code }
    }

    /// Its decoder, with more to ask than [`Decoder`] has.
    pub fn linear_decoder(&self, symbol_bytes: usize, limits: DecoderLimits) -> LinearDecoder<R> {
        LinearDecoder {
            rows: self.rows.clone(),
            symbol_bytes,
            limits,
            decoded: BTreeSet::new(),
            retained: BTreeMap::new(),
            equations: Vec::new(),
            recovered: Recovered::default(),
            released: 0,
        }
    }
}

impl<R: Rows + Code + Clone + 'static> Code for Linear<R> {
    fn parameters(&self) -> Vec<u32> {
        self.rows.parameters()
    }

    fn repair_key(&self, index: u32, of: u32) -> RepairKey {
        self.rows.repair_key(index, of)
    }

    fn shape(&self) -> CodeShape {
        self.rows.shape()
    }

    fn encoder(&self, _symbol_bytes: usize) -> Box<dyn Encoder> {
        Box::new(RowEncoder::new(self.rows.clone()))
    }

    fn decoder(&self, symbol_bytes: usize, limits: DecoderLimits) -> Box<dyn Decoder> {
        Box::new(self.linear_decoder(symbol_bytes, limits))
    }
}

/// sum of coefficient * symbol = value, over symbols that are not decoded.
#[derive(Clone, Debug, Default)]
struct Equation {
    terms: BTreeMap<u64, u8>,
    value: Vec<u8>,
}

impl Equation {
    /// self += factor * other.
    fn add(&mut self, other: &Self, factor: u8) {
        for (id, c) in &other.terms {
            let sum = self.terms.get(id).copied().unwrap_or(0) ^ gf::mul(factor, *c);
            if sum == 0 {
                self.terms.remove(id);
            } else {
                self.terms.insert(*id, sum);
            }
        }
        self.add_value(&other.value, factor);
    }

    fn add_value(&mut self, value: &[u8], factor: u8) {
        self.value.resize(self.value.len().max(value.len()), 0);
        for (sum, byte) in self.value.iter_mut().zip(value) {
            *sum ^= gf::mul(factor, *byte);
        }
    }

    fn pivot(&self) -> Option<(u64, u8)> {
        self.terms.iter().next().map(|(id, c)| (*id, *c))
    }

    fn scale(&mut self, factor: u8) {
        self.terms.values_mut().for_each(|c| *c = gf::mul(factor, *c));
        self.value.iter_mut().for_each(|byte| *byte = gf::mul(factor, *byte));
    }
}

/// The reference decoder.
#[derive(Debug)]
pub struct LinearDecoder<R> {
    rows: R,
    symbol_bytes: usize,
    limits: DecoderLimits,
    decoded: BTreeSet<u64>,
    /// Decoded symbols whose bytes are still here.
    retained: BTreeMap<u64, Vec<u8>>,
    /// Reduced row echelon form: a pivot has coefficient 1 and occurs in no other equation.
    equations: Vec<Equation>,
    recovered: Recovered,
    released: u64,
}

impl<R: Rows> LinearDecoder<R> {
    /// Whether `id` is decoded or the leading term of an equation.
    pub fn is_seen(&self, id: SymbolId) -> bool {
        self.decoded.contains(&id.0)
            || self.equations.iter().any(|e| e.pivot().is_some_and(|(pivot, _)| pivot == id.0))
    }

    /// Equations held, which is the number of symbols seen but not decoded.
    pub fn equations(&self) -> usize {
        self.equations.len()
    }

    fn retain(&mut self, id: u64, symbol: &[u8]) {
        self.decoded.insert(id);
        if id >= self.released {
            self.retained.insert(id, symbol.to_vec());
        }
        while self.retained.len() > self.limits.symbols_max.max(1) as usize {
            self.retained.pop_first();
        }
    }

    /// Brings an equation into the system.
    fn insert(&mut self, mut new: Equation) -> Result<Innovation, CodeError> {
        for equation in &self.equations {
            let factor = equation.pivot().and_then(|(pivot, _)| new.terms.get(&pivot).copied()).unwrap_or(0);
            if factor != 0 {
                new.add(equation, factor);
            }
        }
        let Some((pivot, leading)) = new.pivot() else {
            let is_consistent = new.value.iter().all(|byte| *byte == 0);
            return if is_consistent { Ok(Innovation::Redundant) } else { Err(CodeError::Inconsistent) };
        };
        new.scale(gf::inverse(leading));
        for equation in &mut self.equations {
            if let Some(factor) = equation.terms.get(&pivot).copied() {
                equation.add(&new, factor);
            }
        }
        self.equations.push(new);
        self.collect();
        Ok(if self.make_room() { Innovation::Dropped } else { Innovation::Innovative })
    }

    /// Equations with one term are symbols.
    fn collect(&mut self) {
        while let Some(index) = self.equations.iter().position(|equation| equation.terms.len() == 1) {
            let equation = self.equations.swap_remove(index);
            if let Some((id, _)) = equation.pivot() {
                self.retain(id, &equation.value);
                self.recovered.push(id, equation.value);
            }
        }
    }

    /// The equation about the latest symbols goes. Whether one had to.
    fn make_room(&mut self) -> bool {
        if self.equations.len() <= self.limits.equations_max as usize {
            return false;
        }
        let last = (0..self.equations.len()).max_by_key(|index| self.equations[*index].pivot());
        last.map(|index| self.equations.swap_remove(index)).is_some()
    }

    /// A missing symbol arrived: it leaves all equations, and one of them may lose its pivot.
    fn substitute(&mut self, id: u64, symbol: &[u8]) -> Result<(), CodeError> {
        let mut without_pivot = None;
        for (index, equation) in self.equations.iter_mut().enumerate() {
            let pivot = equation.pivot();
            if let Some(factor) = equation.terms.remove(&id) {
                equation.add_value(symbol, factor);
                if pivot.is_some_and(|(pivot, _)| pivot == id) {
                    without_pivot = Some(index);
                }
            }
        }
        let result = match without_pivot.map(|index| self.equations.swap_remove(index)) {
            Some(equation) => self.insert(equation).map(|_| ()),
            None => Ok(()),
        };
        self.collect();
        result
    }

    /// The equation a repair symbol stands for, its known symbols taken out; `None` if one of them is
    /// forgotten.
    fn equation(&self, cover: Cover<'_>, row: &[u8], repair: &[u8]) -> Result<Option<Equation>, CodeError> {
        let mut equation = Equation { terms: BTreeMap::new(), value: repair.to_vec() };
        for (id, factor) in ids(cover).zip(row).filter(|(_, factor)| **factor != 0) {
            if !self.decoded.contains(&id) {
                equation.terms.insert(id, *factor);
            } else if let Some(symbol) = self.retained.get(&id) {
                equation.add_value(symbol, *factor);
            } else {
                return Ok(None);
            }
        }
        if equation.value.len() > repair.len() && equation.value[repair.len()..].iter().any(|byte| *byte != 0)
        {
            return Err(CodeError::Inconsistent);
        }
        equation.value.truncate(repair.len());
        Ok(Some(equation))
    }
}

impl<R: Rows> Decoder for LinearDecoder<R> {
    fn on_source(&mut self, id: SymbolId, symbol: &[u8]) -> Result<Innovation, CodeError> {
        if symbol.len() > self.symbol_bytes {
            return Err(CodeError::TooLong);
        }
        if self.decoded.contains(&id.0) {
            return Ok(Innovation::Redundant);
        }
        if id.0 == u64::MAX || id.0.saturating_sub(self.decoded_below().0) >= REACH {
            return Ok(Innovation::OutOfReach);
        }
        self.retain(id.0, symbol);
        self.substitute(id.0, symbol).map(|()| Innovation::Innovative)
    }

    fn on_repair(
        &mut self,
        cover: Cover<'_>,
        key: RepairKey,
        repair: &[u8],
    ) -> Result<Innovation, CodeError> {
        let len = check_cover(cover)?;
        self.rows.check(cover, key)?;
        if repair.len() > self.symbol_bytes {
            return Err(CodeError::TooLong);
        }
        if ids(cover).all(|id| self.decoded.contains(&id)) {
            return Ok(Innovation::Redundant);
        }
        let is_near = |id: u64| id >= self.released && id.saturating_sub(self.decoded_below().0) < REACH;
        if !ids(cover).all(is_near) {
            return Ok(Innovation::OutOfReach);
        }
        let mut row = vec![0; len];
        self.rows.row(cover, key, &mut row);
        match self.equation(cover, &row, repair)? {
            Some(equation) => self.insert(equation),
            None => Ok(Innovation::OutOfReach),
        }
    }

    fn poll_recovered(&mut self, out: &mut Vec<u8>) -> Option<SymbolId> {
        self.recovered.poll(out)
    }

    /// Missing symbols of the window less the rank of what the equations say about the window alone.
    fn deficit(&self, window: Window) -> u32 {
        let missing = (window.first.0..window.end().0).filter(|id| !self.decoded.contains(id)).count();
        let inside: Vec<_> = self
            .equations
            .iter()
            .filter(|e| e.pivot().is_some_and(|(pivot, _)| window.contains(SymbolId(pivot))))
            .collect();
        let mut outside: Vec<Equation> = Vec::new();
        for equation in &inside {
            let mut rest = Equation { value: Vec::new(), ..(*equation).clone() };
            rest.terms.retain(|id, _| !window.contains(SymbolId(*id)));
            for other in &outside {
                if let Some(factor) = other.pivot().and_then(|(pivot, _)| rest.terms.get(&pivot).copied()) {
                    rest.add(other, factor);
                }
            }
            if let Some((_, leading)) = rest.pivot() {
                rest.scale(gf::inverse(leading));
                outside.push(rest);
            }
        }
        (missing - (inside.len() - outside.len())) as u32
    }

    fn decoded_below(&self) -> SymbolId {
        SymbolId((0..).find(|id| !self.decoded.contains(id)).unwrap_or(u64::MAX))
    }

    fn seen_below(&self) -> SymbolId {
        SymbolId((0..).find(|id| !self.is_seen(SymbolId(*id))).unwrap_or(u64::MAX))
    }

    fn is_decoded(&self, id: SymbolId) -> bool {
        self.decoded.contains(&id.0)
    }

    fn release(&mut self, below: SymbolId) {
        self.released = self.released.max(below.0);
        self.retained = self.retained.split_off(&self.released);
        let released = self.released;
        self.equations.retain(|equation| equation.pivot().is_some_and(|(pivot, _)| pivot >= released));
    }

    fn memory_bytes(&self) -> usize {
        let symbols = self.retained.len() + self.equations.len() + self.recovered.len();
        let terms: usize = self.equations.iter().map(|equation| equation.terms.len() * 16).sum();
        size_of::<Self>() + symbols * self.symbol_bytes + terms + self.decoded.len() * 8
    }

    /// Not counted: the reference is slow on purpose, and no peer can ask for it.
    fn work(&self) -> u64 {
        0
    }
}
