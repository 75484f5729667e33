//! The rows of the tables: a word of a setting that chooses a module, and what it chooses.

use std::sync::Arc;

use fulmar_control::{CongestionController, LossEstimator, RedundancyPolicy, Sizing};
use fulmar_fec::{Code, CodeError, CodeId};

use crate::make::Make;
use crate::values::Values;

/// What the repair symbols of a code are made of, as far as policies ask.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Cover {
    /// There are none.
    Nothing,
    /// Groups out of the window.
    Groups,
    /// Any stretch of the window.
    Window,
    /// A block, beside its source symbols.
    Block,
    /// A block, instead of its source symbols.
    Fountain,
}

/// A code, or why there is none with such parameters.
pub type MadeCode = Result<Arc<dyn Code>, CodeError>;

/// A code that the setting `code` chooses.
#[derive(Debug)]
pub struct CodeRow {
    /// Its number on the wire.
    pub id: CodeId,
    /// Its word.
    pub name: &'static str,
    /// What its repair is made of.
    pub cover: Cover,
    /// Longest block, and why there is a longest.
    pub block_max: Option<(u32, &'static str)>,
    /// Its maker.
    pub make: fn(&Values) -> MadeCode,
    /// The same from [`Code::parameters`], as the other end tells them.
    pub from_parameters: fn(&[u32]) -> MadeCode,
}

/// The settings of the engine that every controller with TCP's window takes.
pub const WINDOW_SETTINGS: &[&str] = &["iw", "wmin", "lw", "growth", "paced"];

/// A congestion controller that the setting `cc` chooses.
#[derive(Debug)]
pub struct ControllerRow {
    /// Its word.
    pub name: &'static str,
    /// It sends less when packets are lost or delayed.
    pub obeys: bool,
    /// Settings of another part that it takes besides its own.
    pub takes: &'static [&'static str],
    /// Its maker.
    pub make: fn(&Values) -> Make<dyn CongestionController>,
}

/// A loss-rate estimator that the setting `loss` chooses.
#[derive(Debug)]
pub struct EstimatorRow {
    /// Its word.
    pub name: &'static str,
    /// Its maker.
    pub make: fn(&Values) -> Make<dyn LossEstimator>,
}

/// A redundancy policy that the setting `policy` chooses.
#[derive(Debug)]
pub struct PolicyRow {
    /// Its word.
    pub name: &'static str,
    /// What its code must cover,
    pub covers: &'static [Cover],
    /// and the same in words.
    pub needs: &'static str,
    /// Settings of another part that it takes besides its own.
    pub takes: &'static [&'static str],
    /// TCP above the code asks for what the code lacks, by its timeout and duplicate ACKs.
    pub is_asked_by_tcp: fn(&Values) -> bool,
    /// Its maker.
    pub make: fn(&Values) -> Make<dyn RedundancyPolicy>,
}

/// A length of blocks that the setting `sizing` chooses.
#[derive(Debug)]
pub struct SizingRow {
    /// Its word.
    pub name: &'static str,
    /// Its maker.
    pub make: fn(&Values) -> Make<dyn Sizing>,
}
