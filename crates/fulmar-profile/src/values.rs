//! The values of all settings of one profile.

use std::collections::BTreeMap;

use crate::kind::Value;

/// The value of every setting that applies.
#[derive(Clone, Debug)]
pub struct Values(BTreeMap<&'static str, Value>);

impl Values {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Sets one.
    pub(crate) fn insert(&mut self, setting: &'static str, value: Value) {
        self.0.insert(setting, value);
    }

    /// The value of a setting; `None` if it does not apply.
    pub fn of(&self, setting: &str) -> Option<Value> {
        self.0.get(setting).copied()
    }

    /// The word of a setting; empty if it does not apply.
    pub fn word(&self, setting: &str) -> &'static str {
        match self.0.get(setting) {
            Some(Value::Word(word)) => word,
            _ => "",
        }
    }

    /// The whole number of a setting; 0 if it does not apply.
    pub fn integer(&self, setting: &str) -> u64 {
        match self.0.get(setting) {
            Some(Value::Integer(value)) => *value,
            _ => 0,
        }
    }

    /// The same where the setting's range fits.
    pub fn integer_u32(&self, setting: &str) -> u32 {
        u32::try_from(self.integer(setting)).unwrap_or(u32::MAX)
    }

    /// A setting of 0 or 1 is 1; no if it does not apply.
    pub fn flag(&self, setting: &str) -> bool {
        self.integer(setting) == 1
    }

    /// The number of a setting; 0 if it does not apply.
    pub fn number(&self, setting: &str) -> f64 {
        match self.0.get(setting) {
            Some(Value::Number(value)) => *value,
            _ => 0.0,
        }
    }
}
