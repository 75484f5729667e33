//! fulmar-net
