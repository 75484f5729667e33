//! One part of many of an experiment, so that a cluster can share the work.

use std::str::FromStr;

use super::RunKey;

/// Part `index` of `count`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub index: u64,
    /// How many there are.
    pub count: u64,
}

impl Shard {
    /// Everything.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Whether a run belongs to it.
    pub fn contains(&self, key: &RunKey) -> bool {
        key.shard(self.count) == self.index
    }

    /// The file its runs are added to: of its own, so that parts may share a folder.
    pub(super) fn file_name(&self) -> String {
        if *self == Self::WHOLE {
            "runs.jsonl".into()
        } else {
            format!("runs-{}-of-{}.jsonl", self.index, self.count)
        }
    }

    /// `I/N`, or `auto` and `auto/N` with the variables of Slurm's arrays and Kubernetes' indexed jobs.
    fn parse(text: &str, variable: impl Fn(&str) -> Option<u64>) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is no part of a whole such as 0/8 (the first of eight), auto or auto/8");
        let (index, count) = text.split_once('/').map_or((text, None), |(index, count)| (index, Some(count)));
        let count = count.map(|count| count.parse::<u64>().map_err(|_| wrong())).transpose()?;
        let (index, count) = if index == "auto" {
            let (slurm, kubernetes) = (variable("SLURM_ARRAY_TASK_ID"), variable("JOB_COMPLETION_INDEX"));
            let first = slurm.and_then(|_| variable("SLURM_ARRAY_TASK_MIN")).unwrap_or(0);
            let index = slurm.or(kubernetes).ok_or(
                "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set: say which part, such as 0/8",
            )?;
            let count = count.or_else(|| variable("SLURM_ARRAY_TASK_COUNT"));
            let count = count.ok_or("how many parts there are is not known: say auto/8")?;
            (index.checked_sub(first).ok_or_else(wrong)?, count)
        } else {
            (index.parse().map_err(|_| wrong())?, count.ok_or_else(wrong)?)
        };
        if index < count {
            Ok(Self { index, count })
        } else {
            Err(format!("there is no part {index} of {count}: they count from 0"))
        }
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, |name| std::env::var(name).ok()?.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, set: &[(&str, u64)]) -> Result<(u64, u64), String> {
        let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        Shard::parse(text, variable).map(|shard| (shard.index, shard.count))
    }

    #[test]
    fn parts_by_number_and_from_the_cluster() {
        assert_eq!(with("3/8", &[]), Ok((3, 8)));
        let slurm = [("SLURM_ARRAY_TASK_ID", 5), ("SLURM_ARRAY_TASK_MIN", 1), ("SLURM_ARRAY_TASK_COUNT", 16)];
        assert_eq!(with("auto", &slurm), Ok((4, 16)));
        assert_eq!(with("auto/8", &[("JOB_COMPLETION_INDEX", 7)]), Ok((7, 8)));
        for (text, set, reason) in [
            ("8/8", &[][..], "count from 0"),
            ("x/8", &[], "no part of a whole"),
            ("3", &[], "no part of a whole"),
            ("0/0", &[], "count from 0"),
            ("auto/8", &[], "JOB_COMPLETION_INDEX"),
            ("auto", &[("JOB_COMPLETION_INDEX", 7)], "auto/8"),
        ] {
            assert!(with(text, set).unwrap_err().contains(reason), "{text}");
        }
    }

    #[test]
    fn every_run_is_in_one_part() {
        let hash = super::super::ScenarioHash::of("x");
        for seed in 0..500 {
            let key = hash.with("c", seed);
            let parts = (0..7).filter(|&index| Shard { index, count: 7 }.contains(&key)).count();
            assert_eq!(parts, 1);
            assert!(Shard::WHOLE.contains(&key));
        }
    }
}
