//! Names and the addresses that stand in for them.

use std::collections::HashMap;
use std::net::IpAddr;

use fulmar_carry::{STAND_INS, StandIn};

/// Names that programs have asked about. When there are more than addresses, the oldest lose theirs.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_name: HashMap<String, StandIn>,
    by_number: HashMap<StandIn, String>,
    next: u32,
}

impl Names {
    /// The address that stands in for a name from now on.
    pub(super) fn stand_in(&mut self, name: &str) -> StandIn {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if let Some(known) = self.by_name.get(&name) {
            return *known;
        }
        let stand_in = StandIn::new(self.next);
        self.next = (self.next + 1) % STAND_INS;
        if let Some(oldest) = self.by_number.insert(stand_in, name.clone()) {
            self.by_name.remove(&oldest);
        }
        self.by_name.insert(name, stand_in);
        stand_in
    }

    /// The name that an address stands in for.
    pub(super) fn name(&self, ip: IpAddr) -> Option<&str> {
        self.by_number.get(&StandIn::of(ip)?).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_address_while_there_is_room() {
        let mut names = Names::default();
        let first = names.stand_in("Example.ORG.");
        assert_eq!(names.stand_in("example.org"), first);
        assert_eq!(names.name(first.v4().into()), Some("example.org"));
        assert_eq!(names.name(first.v6().into()), Some("example.org"));
        assert_eq!(names.name("192.0.2.1".parse().unwrap()), None);
        for number in 1..STAND_INS {
            names.stand_in(&format!("host{number}"));
        }
        assert_eq!(names.stand_in("example.org"), first);
        assert_eq!(names.stand_in("one.more"), first, "the oldest makes room");
        assert_eq!(names.name(first.v4().into()), Some("one.more"));
        assert_eq!(names.by_name.len(), STAND_INS as usize);
        assert_ne!(names.stand_in("example.org"), first);
    }
}
