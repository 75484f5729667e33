//! A code for what is worthless when late: repair symbols over the newest symbols, and a decoder whose window
//! moves on whether or not all of them arrived.
//!
//! The coefficients are those of [`RlcWindow`]; ids count modulo 2^16 in them, because packets carry as much.
//! The decoder holds equations only: the symbols that are known lie with whoever asks it. It is made for
//! covers of at most [`Recent::COVER_MAX`] symbols, of which few are missing, so that plain rows are enough.
//!
//! Invariants: a row's terms ascend, the first is its pivot with coefficient 1, and no pivot occurs in
//! another row.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use fulmar_gf as gf;

use crate::rows::{Rows, check_cover};
use crate::{CodeError, Cover, RepairKey, RlcWindow, SymbolId, Symbols, Window};

/// What is left of an id in the coefficients.
const ID_MASK: u64 = 0xffff;

/// sum of coefficient * symbol = value, over symbols that are not known.
#[derive(Debug)]
struct Row {
    terms: Vec<(u64, u8)>,
    value: Vec<u8>,
}

impl Row {
    fn factor_of(&self, id: u64) -> Option<u8> {
        let at = self.terms.binary_search_by_key(&id, |term| term.0).ok()?;
        Some(self.terms[at].1)
    }

    /// self += factor * other.
    fn add(&mut self, other: &Self, factor: u8) {
        for &(id, coefficient) in &other.terms {
            let product = gf::mul(factor, coefficient);
            match self.terms.binary_search_by_key(&id, |term| term.0) {
                Ok(at) if self.terms[at].1 == product => drop(self.terms.remove(at)),
                Ok(at) => self.terms[at].1 ^= product,
                Err(at) => self.terms.insert(at, (id, product)),
            }
        }
        self.value.resize(self.value.len().max(other.value.len()), 0);
        gf::mul_add(&mut self.value[..other.value.len()], &other.value, factor);
    }

    /// Takes a known symbol out of the value: padding may be longer than it, and nothing else.
    fn subtract(&mut self, symbol: &[u8], factor: u8) -> Result<(), CodeError> {
        let (common, rest) = symbol.split_at(symbol.len().min(self.value.len()));
        if rest.iter().any(|byte| *byte != 0) {
            return Err(CodeError::Inconsistent);
        }
        gf::mul_add(&mut self.value[..common.len()], common, factor);
        Ok(())
    }

    fn normalize(&mut self, leading: u8) {
        let inverse = gf::inverse(leading);
        self.terms.iter_mut().for_each(|term| term.1 = gf::mul(term.1, inverse));
        gf::scale(&mut self.value, inverse);
    }
}

/// The decoder of a window that moves on.
///
/// ```
/// # use fulmar_fec::*;
/// let source = vec![b"one".to_vec(), b"two".to_vec(), b"three".to_vec()];
/// let window = Window { first: SymbolId(0), len: 3 };
/// let mut repair = Vec::new();
/// Recent::repair(window, RepairKey(7), &source, &mut repair).unwrap();
///
/// struct But1<'a>(&'a [Vec<u8>]);
/// impl Symbols for But1<'_> {
///     fn get(&self, id: SymbolId) -> Option<&[u8]> {
///         if id.0 == 1 { None } else { Symbols::get(self.0, id) }
///     }
/// }
/// let mut recent = Recent::new(64, 1 << 17);
/// recent.on_repair(window, RepairKey(7), &repair, &But1(&source)).unwrap();
/// assert_eq!(recent.poll_recovered(), Some((SymbolId(1), b"two\0\0".to_vec())));
/// ```
#[derive(Debug)]
pub struct Recent {
    rows: Vec<Row>,
    rows_max: usize,
    bytes: usize,
    bytes_max: usize,
    recovered: VecDeque<(SymbolId, Vec<u8>)>,
}

impl Recent {
    /// Most symbols that one repair symbol covers.
    pub const COVER_MAX: u32 = 128;

    /// A decoder that keeps at most so many equations, and so many bytes of them.
    pub fn new(rows_max: usize, bytes_max: usize) -> Self {
        Self { rows: Vec::new(), rows_max, bytes: 0, bytes_max, recovered: VecDeque::new() }
    }

    /// Appends the repair symbol `key` over `window` to `out`: as long as the longest symbol covered.
    pub fn repair(
        window: Window,
        key: RepairKey,
        symbols: &(impl Symbols + ?Sized),
        out: &mut Vec<u8>,
    ) -> Result<(), CodeError> {
        let factors = coefficients(window, key)?;
        let start = out.len();
        for (id, &factor) in (window.first.0..window.end().0).map(SymbolId).zip(&factors) {
            let symbol = symbols.get(id).ok_or(CodeError::MissingSource(id))?;
            out.resize(out.len().max(start + symbol.len()), 0);
            gf::mul_add(&mut out[start..start + symbol.len()], symbol, factor);
        }
        Ok(())
    }

    /// A repair symbol arrived. `known` has every symbol of the window that is known; the others count as
    /// missing. What follows is told by [`Self::poll_recovered`].
    pub fn on_repair(
        &mut self,
        window: Window,
        key: RepairKey,
        repair: &[u8],
        known: &(impl Symbols + ?Sized),
    ) -> Result<(), CodeError> {
        let factors = coefficients(window, key)?;
        let mut row = Row { terms: Vec::new(), value: repair.to_vec() };
        for (id, &factor) in (window.first.0..window.end().0).zip(&factors) {
            match known.get(SymbolId(id)) {
                Some(symbol) => row.subtract(symbol, factor)?,
                None => row.terms.push((id, factor)),
            }
        }
        self.insert(row)
    }

    /// A symbol is known that was missing, by itself or because it was recovered elsewhere.
    pub fn on_source(&mut self, id: SymbolId, symbol: &[u8]) -> Result<(), CodeError> {
        let mut without_pivot = None;
        for (index, row) in self.rows.iter_mut().enumerate() {
            let Ok(at) = row.terms.binary_search_by_key(&id.0, |term| term.0) else { continue };
            let (_, factor) = row.terms.remove(at);
            row.subtract(symbol, factor)?;
            if at == 0 {
                without_pivot = Some(index);
            }
        }
        if let Some(index) = without_pivot {
            let row = self.take(index);
            self.insert(row)?;
        }
        self.collect();
        Ok(())
    }

    /// The next symbol that was recovered, padded to the longest that its equations covered.
    pub fn poll_recovered(&mut self) -> Option<(SymbolId, Vec<u8>)> {
        self.recovered.pop_front()
    }

    /// Symbols below `below` are of no use any more, nor are equations about them.
    pub fn release(&mut self, below: SymbolId) {
        while let Some(index) = self.rows.iter().position(|row| row.terms[0].0 < below.0) {
            self.take(index);
        }
    }

    /// Bytes of memory held now.
    pub fn memory_bytes(&self) -> usize {
        let terms: usize = self.rows.iter().map(|row| row.terms.capacity() * size_of::<(u64, u8)>()).sum();
        self.bytes + terms + self.rows.capacity() * size_of::<Row>()
    }

    fn take(&mut self, index: usize) -> Row {
        let row = self.rows.swap_remove(index);
        self.bytes -= row.value.len();
        row
    }

    /// Brings an equation into the system.
    fn insert(&mut self, mut new: Row) -> Result<(), CodeError> {
        for row in &self.rows {
            if let Some(factor) = new.factor_of(row.terms[0].0) {
                new.add(row, factor);
            }
        }
        let Some(&(pivot, leading)) = new.terms.first() else {
            let is_consistent = new.value.iter().all(|byte| *byte == 0);
            return if is_consistent { Ok(()) } else { Err(CodeError::Inconsistent) };
        };
        new.normalize(leading);
        for row in &mut self.rows {
            if let Some(factor) = row.factor_of(pivot) {
                let before = row.value.len();
                row.add(&new, factor);
                self.bytes += row.value.len() - before;
            }
        }
        self.bytes += new.value.len();
        self.rows.push(new);
        self.collect();
        // The oldest equation goes where there are too many: its symbols are late first.
        while self.rows.len() > self.rows_max || (self.bytes > self.bytes_max && !self.rows.is_empty()) {
            let oldest = (0..self.rows.len()).min_by_key(|&index| self.rows[index].terms[0].0).unwrap_or(0);
            self.take(oldest);
        }
        Ok(())
    }

    /// Equations with one term are symbols.
    fn collect(&mut self) {
        while let Some(index) = self.rows.iter().position(|row| row.terms.len() == 1) {
            let row = self.take(index);
            self.recovered.push_back((SymbolId(row.terms[0].0), row.value));
        }
    }
}

fn coefficients(window: Window, key: RepairKey) -> Result<Vec<u8>, CodeError> {
    let len = check_cover(Cover::Window(window))?;
    let code = RlcWindow::new(Recent::COVER_MAX)?;
    let named = Window { first: SymbolId(window.first.0 & ID_MASK), len: window.len };
    code.check(Cover::Window(named), key)?;
    let mut row = alloc::vec![0; len];
    code.row(Cover::Window(named), key, &mut row);
    Ok(row)
}
