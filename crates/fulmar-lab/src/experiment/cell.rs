//! A cell of an experiment: one choice of what is varied.

/// One point of the sweep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Names and values, in the order of names.
    pub settings: Vec<(String, String)>,
}

impl Cell {
    /// A value by its name.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// For people and as a key of results: `burst=5 loss=10%`.
    pub fn label(&self) -> String {
        let words: Vec<String> = self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        words.join(" ")
    }
}
