//! The table of all settings and modules: parts put together, and what a profile says of them.

use fulmar_fec::CodeId;

use crate::error::ProfileError;
use crate::kind::{Kind, Setting, Value};
use crate::make::HandshakeTimer;
use crate::rows::{CodeRow, ControllerRow, EstimatorRow, PolicyRow, SizingRow};
use crate::system::{Family, System};
use crate::values::Values;

/// Parts put together.
#[derive(Debug)]
pub struct Table {
    systems: Vec<&'static System>,
    /// Of all parts, with the words that all parts have for those that choose modules.
    settings: Vec<Setting>,
    hint: &'static str,
}

/// The rows of one kind, of all parts.
macro_rules! rows {
    ($table:expr, $kind:ident) => {
        $table.systems.iter().flat_map(|system| system.$kind)
    };
}

/// The row that `values` choose by a setting.
macro_rules! chosen {
    ($table:expr, $kind:ident, $values:expr, $setting:literal) => {{
        let word = $values.word($setting);
        let row = rows!($table, $kind).find(|row| row.name == word);
        row.unwrap_or_else(|| unreachable!("{}={word}: a setting takes the names of its rows", $setting))
    }};
}

impl Table {
    /// The parts, the engine's first. `hint` goes on where something is not found: why there may be less than
    /// somebody expects; empty where nothing is left out.
    pub fn new(systems: Vec<&'static System>, hint: &'static str) -> Self {
        let mut table = Self { systems, settings: Vec::new(), hint };
        let settings = table.systems.iter().flat_map(|system| system.settings);
        table.settings = settings.map(|setting| table.complete(setting)).collect();
        table
    }

    /// A setting with what rows say of it: the words that choose modules, and the rows it belongs to. A table
    /// is made once and stays as long as the program, and so do the lists of words that are made here.
    fn complete(&self, setting: &Setting) -> Setting {
        let mut setting = *setting;
        let words: Vec<&'static str> = match setting.name {
            "code" => rows!(self, codes).map(|row| row.name).collect(),
            "cc" => rows!(self, controllers).map(|row| row.name).collect(),
            "loss" => rows!(self, estimators).map(|row| row.name).collect(),
            "policy" => rows!(self, policies).map(|row| row.name).collect(),
            "sizing" => rows!(self, sizings).map(|row| row.name).collect(),
            _ => Vec::new(),
        };
        if !words.is_empty() {
            setting.kind = Kind::Word(words.leak());
        }
        if let Some((selector, words)) = setting.belongs_to {
            let takes = |takes: &[&str]| takes.contains(&setting.name);
            let controllers = rows!(self, controllers).filter(|row| selector == "cc" && takes(row.takes));
            let policies = rows!(self, policies).filter(|row| selector == "policy" && takes(row.takes));
            let takers = controllers.map(|row| row.name).chain(policies.map(|row| row.name));
            let words: Vec<&'static str> = words.iter().copied().chain(takers).collect();
            setting.belongs_to = Some((selector, words.leak()));
        }
        setting
    }

    /// All profiles, the engine's first.
    pub fn families(&self) -> impl Iterator<Item = &'static Family> {
        rows!(self, families)
    }

    /// The profile of that name.
    pub fn family(&self, name: &str) -> Result<&'static Family, ProfileError> {
        self.families().find(|family| family.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.families().map(|family| family.name).collect();
            ProfileError::UnknownProfile { name: name.into(), known: known.join(", "), hint: self.hint }
        })
    }

    /// All settings. Those that choose stand before those that belong to what they choose.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The setting of that name.
    pub fn setting(&self, name: &str) -> Result<&Setting, ProfileError> {
        let setting = self.settings.iter().find(|setting| setting.name == name);
        setting.ok_or_else(|| ProfileError::UnknownSetting { setting: name.into(), hint: self.hint })
    }

    /// Reads a value of a setting.
    pub fn read(&self, setting: &Setting, text: &str) -> Result<Value, ProfileError> {
        setting.kind.read(text).ok_or_else(|| ProfileError::BadValue {
            setting: setting.name,
            value: text.into(),
            kind: setting.kind,
            hint: if matches!(setting.kind, Kind::Word(_)) { self.hint } else { "" },
        })
    }

    /// All values: what was given, else what the profile says, else the default. An error for what was given
    /// and does not apply, and for what does not go together.
    pub fn values(&self, family: &Family, given: &[(&'static str, String)]) -> Result<Values, ProfileError> {
        let mut values = Values::new();
        // A setting that chooses stands before those it chooses, so one pass is enough.
        for setting in &self.settings {
            let given = given.iter().find(|(name, _)| *name == setting.name).map(|(_, text)| &**text);
            if let Some(reason) = why_not(&values, setting) {
                match given {
                    Some(_) => return Err(reason),
                    None => continue,
                }
            }
            let text = given.or_else(|| family.value_of(setting.name)).unwrap_or(setting.default);
            values.insert(setting.name, self.read(setting, text)?);
        }
        self.check(&values)?;
        Ok(values)
    }

    /// An error with its reason where `values` cannot work.
    fn check(&self, values: &Values) -> Result<(), ProfileError> {
        let (policy, code) = (self.policy(values), self.code(values));
        if !policy.covers.contains(&code.cover) {
            let (name, needs) = (policy.name, policy.needs);
            let reason = format!("policy={name} needs {needs}; code is {}", code.name);
            return Err(ProfileError::Conflict(reason));
        }
        self.systems.iter().try_for_each(|system| (system.check)(values))?;
        // Blocks as long as the code can make them, with room for repair.
        let longest = crate::reads::block_symbols_max(values);
        match code.block_max {
            Some((max, reason)) if longest > max => Err(ProfileError::Conflict(format!(
                "code={} takes blocks of at most {max} source symbols, not {longest}: {reason}",
                code.name
            ))),
            _ => Ok(()),
        }
    }

    /// All codes.
    pub fn codes(&self) -> impl Iterator<Item = &'static CodeRow> {
        rows!(self, codes)
    }

    /// The code of that number on the wire, if it is there.
    pub fn code_numbered(&self, id: CodeId) -> Option<&'static CodeRow> {
        self.codes().find(|row| row.id == id)
    }

    /// The code that `values` choose.
    pub fn code(&self, values: &Values) -> &'static CodeRow {
        chosen!(self, codes, values, "code")
    }

    /// The congestion controller that `values` choose.
    pub fn controller(&self, values: &Values) -> &'static ControllerRow {
        chosen!(self, controllers, values, "cc")
    }

    /// The loss-rate estimator that `values` choose.
    pub fn estimator(&self, values: &Values) -> &'static EstimatorRow {
        chosen!(self, estimators, values, "loss")
    }

    /// The redundancy policy that `values` choose.
    pub fn policy(&self, values: &Values) -> &'static PolicyRow {
        chosen!(self, policies, values, "policy")
    }

    /// The length of blocks that `values` choose.
    pub fn sizing(&self, values: &Values) -> &'static SizingRow {
        chosen!(self, sizings, values, "sizing")
    }

    /// The timer of the handshake, where `values` set one.
    pub fn handshake_timer(&self, values: &Values) -> Option<HandshakeTimer> {
        self.systems.iter().find_map(|system| (system.handshake_timer)(values))
    }
}

/// Why a setting does not apply; `None` if it does.
fn why_not(values: &Values, setting: &Setting) -> Option<ProfileError> {
    let (selector, belonging) = setting.belongs_to?;
    let chosen = values.of(selector).map(|value| value.to_string());
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
