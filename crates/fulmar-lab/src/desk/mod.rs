//! The operator's desk: the laboratory as a page in a browser, on one machine or on several.
//!
//! Three programs in one, as in the test harness of the LT-TCP thesis (Hourt 2014, 2.1): an [`agent`] at each
//! end sends and receives, the [`controller`] between them applies what the path does, runs experiments in
//! eight steps, keeps their results and serves the page; [`operator`] is all three on one machine. What the
//! page speaks with the controller is docs/internals/operator-api.md, in code [`types`].
//!
//! | module | what |
//! |---|---|
//! | `spec`, `path`, `experiment` | what is to be run: from the page's words, to the links of the model, to and from TOML |
//! | `board` | the state: runs, their samples, who is told of what |
//! | `store` | runs on disk |
//! | `run` | doing it: in virtual time, or by agents over the bridge or relays |
//! | `control` | what controller and agents say to each other |
//! | `http` | the page, and its interface |
//! | `said` | reading what others say |
//! | `results`, `catalogue`, `image` | what was published, what can be chosen, what is sent |

pub mod agent;
mod board;
mod catalogue;
mod control;
pub mod controller;
mod experiment;
mod http;
mod image;
pub mod operator;
mod path;
mod results;
mod run;
pub mod said;
mod spec;
mod statistics;
mod store;
pub mod types;

pub use board::Board;
pub use control::PORT_DEFAULT as CONTROL_PORT;
pub(crate) use http::page_is_built;
