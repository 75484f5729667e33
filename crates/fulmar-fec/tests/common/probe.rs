//! A decoder under watch: after each packet its work and its memory must be within the bounds.

use fulmar_fec::*;

/// So many calls see everything through that a packet leads to.
const GOES_MAX: usize = 200;

/// Work and time of the calls so far. The clock is the caller's: tests have none.
#[derive(Debug)]
pub struct Probe {
    decoder: Box<dyn Decoder>,
    code: String,
    memory_max: usize,
    clock: fn() -> f64,
    out: Vec<u8>,
    pub work_most: u64,
    /// Of every packet, or call that is for none.
    pub seconds: Vec<f64>,
    pub memory_most: usize,
}

impl Probe {
    pub fn new(code: &dyn Code, symbol_bytes: usize, limits: DecoderLimits, clock: fn() -> f64) -> Self {
        Self {
            decoder: code.decoder(symbol_bytes, limits),
            code: format!("{code:?}, symbols of {symbol_bytes}, {limits:?}").chars().take(300).collect(),
            memory_max: limits.memory_bytes_max.max(DecoderLimits::MEMORY_BYTES_MIN),
            clock,
            out: Vec::new(),
            work_most: 0,
            seconds: Vec::new(),
            memory_most: 0,
        }
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut dyn Decoder) -> T) -> T {
        let (work, started) = (self.decoder.work(), (self.clock)());
        let result = call(&mut *self.decoder);
        // What a packet leads to is collected at once, and whatever is left is done after it.
        while self.decoder.poll_recovered(&mut self.out).is_some() {}
        self.seconds.push((self.clock)() - started);
        let work = self.decoder.work() - work;
        self.work_most = self.work_most.max(work);
        assert!(work <= WORK_MAX, "{work} units of work for one packet of {}", self.code);
        result
    }

    fn check_memory(&mut self) {
        let memory = self.decoder.memory_bytes();
        self.memory_most = self.memory_most.max(memory);
        assert!(
            memory <= self.memory_max,
            "{memory} bytes held, {} allowed, by {}",
            self.memory_max,
            self.code
        );
    }

    pub fn source(&mut self, id: u64, symbol: &[u8]) -> Result<Innovation, CodeError> {
        let result = self.call(|decoder| decoder.on_source(SymbolId(id), symbol));
        self.after();
        result
    }

    pub fn repair(&mut self, cover: Cover<'_>, key: u32, repair: &[u8]) -> Result<Innovation, CodeError> {
        let result = self.call(|decoder| decoder.on_repair(cover, RepairKey(key), repair));
        self.after();
        result
    }

    /// What a connection does after each symbol.
    fn after(&mut self) {
        self.check_memory();
        let mut goes = 0;
        // Who sends what contradicts itself has its connection closed.
        while self.decoder.is_busy() && self.call(|decoder| decoder.go_on()).is_ok() {
            self.check_memory();
            goes += 1;
            assert!(goes < GOES_MAX, "there is no end to it: {}", self.code);
        }
        let below = self.call(|decoder| decoder.decoded_below());
        assert!(below <= self.call(|decoder| decoder.seen_below()));
    }

    pub fn deficit(&mut self, first: u64, len: u32) -> u32 {
        self.call(|decoder| decoder.deficit(Window { first: SymbolId(first), len }))
    }

    pub fn release(&mut self, below: u64) {
        self.decoder.release(SymbolId(below));
        self.check_memory();
    }

    /// Of all calls so far.
    pub fn work_total(&self) -> u64 {
        self.decoder.work()
    }

    pub fn decoded_below(&self) -> u64 {
        self.decoder.decoded_below().0
    }
}
