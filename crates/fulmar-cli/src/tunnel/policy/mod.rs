//! What a client may reach through a gateway.
//!
//! | part | decides |
//! |---|---|
//! | [`grants`] | what a line of `authorized_keys` gives |
//! | [`rules`] | whether a client may reach a place, or listen |
//! | [`pattern`] | how places are written there |
//! | [`address`] | which addresses are private |
//! | [`special`] | the registry of special addresses |

pub mod address;
pub mod grants;
pub mod pattern;
pub mod rules;
pub mod special;
