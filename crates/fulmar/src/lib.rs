//! fulmar
