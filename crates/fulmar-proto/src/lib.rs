//! fulmar-proto
