//! A part of the table: what one paper, or the engine itself, brings.

use crate::error::ProfileError;
use crate::kind::Setting;
use crate::make::HandshakeTimer;
use crate::rows::{CodeRow, ControllerRow, EstimatorRow, PolicyRow, SizingRow};
use crate::values::Values;

/// A profile before its settings are given.
#[derive(Debug)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Values of settings where they are not the settings' own defaults.
    pub values: &'static [(&'static str, &'static str)],
}

impl Family {
    /// What it says of a setting.
    pub(crate) fn value_of(&self, setting: &str) -> Option<&'static str> {
        self.values.iter().find(|(name, _)| *name == setting).map(|(_, value)| *value)
    }
}

/// What one source brings: profiles, settings, and the modules that they choose.
#[derive(Debug)]
pub struct System {
    /// Its profiles.
    pub families: &'static [Family],
    /// Its settings. Those that choose stand before those that belong to what they choose.
    pub settings: &'static [Setting],
    /// What `code` chooses.
    pub codes: &'static [CodeRow],
    /// What `cc` chooses.
    pub controllers: &'static [ControllerRow],
    /// What `loss` chooses.
    pub estimators: &'static [EstimatorRow],
    /// What `policy` chooses.
    pub policies: &'static [PolicyRow],
    /// What `sizing` chooses.
    pub sizings: &'static [SizingRow],
    /// An error with its reason where values of its settings do not go together.
    pub check: fn(&Values) -> Result<(), ProfileError>,
    /// The timer of the handshake, where its settings set one.
    pub handshake_timer: fn(&Values) -> Option<HandshakeTimer>,
}

impl System {
    /// One that brings nothing: for parts that have only some of it.
    pub const NOTHING: Self = Self {
        families: &[],
        settings: &[],
        codes: &[],
        controllers: &[],
        estimators: &[],
        policies: &[],
        sizings: &[],
        check: |_| Ok(()),
        handshake_timer: |_| None,
    };
}
