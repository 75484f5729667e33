//! The gateway: who is there, what each holds, and what is opened for it.
//!
//! | part | decides |
//! |---|---|
//! | [`gateway`] | who is let in |
//! | [`account`], [`holders`] | how much a client may, and has |
//! | [`guest`] | what one connection asks for |
//! | [`visitors`] | who comes to a listener that a client asked for |

pub mod account;
pub mod gateway;
pub mod guest;
pub mod holders;
pub mod visitors;
