//! What those see who look after a running command.
//!
//! | part | decides |
//! |---|---|
//! | [`report`] | what is told |
//! | [`control`] | by a socket, to `fulmar status` |
//! | [`metrics`] | by HTTP, to Prometheus |

pub mod control;
pub mod metrics;
pub mod report;
