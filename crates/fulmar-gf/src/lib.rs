//! fulmar-gf
