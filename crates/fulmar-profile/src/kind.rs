//! What a setting is, and what a value of it can be.

/// A value of a setting.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Value {
    /// Of [`Kind::Integer`] and [`Kind::Flag`].
    Integer(u64),
    /// Of [`Kind::Number`].
    Number(f64),
    /// Of [`Kind::Word`].
    Word(&'static str),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Word(value) => f.write_str(value),
        }
    }
}

/// What a setting takes.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Kind {
    /// A whole number within bounds.
    Integer(u64, u64),
    /// A number within bounds.
    Number(f64, f64),
    /// 0 or 1.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// One setting.
#[derive(Copy, Clone, Debug)]
pub struct Setting {
    /// Its name: the source's, where the source gives one.
    pub name: &'static str,
    /// Its range.
    pub kind: Kind,
    /// Its value where a profile says nothing else.
    pub default: &'static str,
    /// The setting that chooses the module it belongs to, and the values that choose it; `None` if it always
    /// applies.
    pub belongs_to: Option<(&'static str, &'static [&'static str])>,
    /// What it does, in a line.
    pub text: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

impl Setting {
    /// A setting that always applies.
    pub const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        text: &'static str,
        source: &'static str,
    ) -> Self {
        Self { name, kind, default, belongs_to: None, text, source }
    }

    /// The same, belonging to the modules that `selector` chooses by one of `words`. Rows that take it
    /// ([`ControllerRow`](crate::ControllerRow), [`PolicyRow`](crate::PolicyRow)) add theirs.
    #[must_use]
    pub const fn of(self, selector: &'static str, words: &'static [&'static str]) -> Self {
        Self { belongs_to: Some((selector, words)), ..self }
    }
}

impl Kind {
    /// Reads a value; `None` if it is none or out of range.
    pub fn read(self, text: &str) -> Option<Value> {
        match self {
            Self::Integer(min, max) => {
                text.parse().ok().filter(|value| (min..=max).contains(value)).map(Value::Integer)
            }
            Self::Number(min, max) => {
                text.parse().ok().filter(|value| (min..=max).contains(value)).map(Value::Number)
            }
            Self::Flag => match text {
                "0" => Some(Value::Integer(0)),
                "1" => Some(Value::Integer(1)),
                _ => None,
            },
            Self::Word(words) => words.iter().find(|word| **word == text).map(|word| Value::Word(word)),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(min, max) if *max >= u64::from(u32::MAX) => write!(f, "{min} or more"),
            Self::Integer(min, max) if min == max => write!(f, "{min}"),
            Self::Integer(min, max) => write!(f, "{min} to {max}"),
            Self::Number(min, max) => write!(f, "{min} to {max}"),
            Self::Flag => f.write_str("0 or 1"),
            Self::Word(words) => f.write_str(&words.join(", ")),
        }
    }
}
