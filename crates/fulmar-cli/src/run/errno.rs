//! Why a target was not reached, as `connect` says it.

use crate::tunnel::Code;

/// An error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(rustix::io::Errno);

impl Errno {
    pub(super) const INVAL: Self = Self(rustix::io::Errno::INVAL);
    pub(super) const NOTSOCK: Self = Self(rustix::io::Errno::NOTSOCK);
    pub(super) const HOSTUNREACH: Self = Self(rustix::io::Errno::HOSTUNREACH);
    pub(super) const CONNABORTED: Self = Self(rustix::io::Errno::CONNABORTED);

    /// As a number.
    pub fn raw(self) -> i32 {
        self.0.raw_os_error()
    }
}

impl From<Code> for Errno {
    fn from(code: Code) -> Self {
        use rustix::io::Errno as E;
        Self(match code {
            Code::Refused => E::CONNREFUSED,
            // `connect` knows no names.
            Code::Unreachable | Code::NameUnknown => E::HOSTUNREACH,
            Code::TimedOut => E::TIMEDOUT,
            // As of a firewall that says no.
            Code::Forbidden => E::ACCESS,
            Code::Limit => E::AGAIN,
            Code::Lost => E::NETUNREACH,
            Code::Malformed => E::INVAL,
            Code::InUse | Code::Other => E::CONNABORTED,
        })
    }
}
