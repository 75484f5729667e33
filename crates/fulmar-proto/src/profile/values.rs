//! The values of all settings of one profile.

use std::collections::BTreeMap;

use super::error::ProfileError;
use super::families::Family;
use super::kind::{Setting, Value};
use super::settings::SETTINGS;

/// The value of every setting that applies.
#[derive(Clone, Debug)]
pub struct Values(BTreeMap<&'static str, Value>);

impl Values {
    /// What was given, else what the profile says, else the default. An error for what was given and does not
    /// apply.
    pub(super) fn resolve(family: &Family, given: &[(&Setting, String)]) -> Result<Self, ProfileError> {
        let mut values = Self(BTreeMap::new());
        // A setting that chooses stands before those it chooses, so one pass is enough.
        for setting in &SETTINGS {
            let given = given.iter().find(|(given, _)| given.name == setting.name).map(|(_, text)| &**text);
            if let Some(reason) = values.why_not(setting) {
                match given {
                    Some(_) => return Err(reason),
                    None => continue,
                }
            }
            let text = given.or_else(|| family.value_of(setting.name)).unwrap_or(setting.default);
            let value = setting.kind.read(text).ok_or_else(|| ProfileError::BadValue {
                setting: setting.name,
                value: text.into(),
                kind: setting.kind,
            })?;
            values.0.insert(setting.name, value);
        }
        Ok(values)
    }

    /// Why a setting does not apply; `None` if it does.
    fn why_not(&self, setting: &Setting) -> Option<ProfileError> {
        let (selector, belonging) = setting.belongs_to?;
        let chosen = self.0.get(selector).map(Value::to_string);
        if chosen.as_deref().is_some_and(|chosen| belonging.contains(&chosen)) {
            return None;
        }
        Some(ProfileError::NotApplicable {
            setting: setting.name,
            selector,
            belongs_to: belonging.join(" or "),
            chosen: chosen.unwrap_or_else(|| "not chosen".into()),
        })
    }

    /// The value of a setting; `None` if it does not apply.
    pub fn of(&self, setting: &str) -> Option<Value> {
        self.0.get(setting).copied()
    }

    /// The word of a setting; empty if it does not apply.
    pub(super) fn word(&self, setting: &str) -> &'static str {
        match self.0.get(setting) {
            Some(Value::Word(word)) => word,
            _ => "",
        }
    }

    /// The whole number of a setting; 0 if it does not apply.
    pub(super) fn integer(&self, setting: &str) -> u64 {
        match self.0.get(setting) {
            Some(Value::Integer(value)) => *value,
            _ => 0,
        }
    }

    /// The same where the setting's range fits.
    pub(super) fn integer_u32(&self, setting: &str) -> u32 {
        u32::try_from(self.integer(setting)).unwrap_or(u32::MAX)
    }

    pub(super) fn flag(&self, setting: &str) -> bool {
        self.integer(setting) == 1
    }

    /// The number of a setting; 0 if it does not apply.
    pub(super) fn number(&self, setting: &str) -> f64 {
        match self.0.get(setting) {
            Some(Value::Number(value)) => *value,
            _ => 0.0,
        }
    }
}
