//! Coded TCP (Leith, Medard et al.): blocks of 32 with repair at the loss rate, and a backoff by RTTmin /
//! RTT.

mod controller;
mod hybrid;

pub use controller::{ByQueue, Ctcp};
pub use hybrid::CtcpHybrid;

use std::sync::Arc;

use fulmar_control::FixedSizing;
use fulmar_fec::RlcBlock;
use fulmar_profile::{
    CodeRow, ControllerRow, Cover, Family, Kind, PolicyRow, Setting, SizingRow, System, WINDOW_SETTINGS,
    block_symbols_max, window,
};

/// A matrix of random coefficients is solved in cubic time.
const BLOCK_SYMBOLS_MAX: u32 = 1024;

pub(crate) static CTCP: System = System {
    families: &[Family {
        name: "ctcp",
        summary: "Coded TCP (Leith, Medard et al.): blocks of 32, FEC at the loss rate, backoff RTTmin / RTT",
        values: &[("code", "rlc-block"), ("cc", "ctcp"), ("policy", "ctcp"), ("sizing", "fixed")],
    }],
    settings: &[
        Setting::new(
            "proactive",
            Kind::Number(0.0, 10.0),
            "1",
            "throughput against delay: times the repair that replaces the mean loss; 0 is ARQ alone",
            "Leith, hybrid coding",
        )
        .of("policy", &["ctcp"]),
        Setting::new("k", Kind::Integer(1, 4096), "32", "source symbols per block", "Leith, hybrid coding")
            .of("sizing", &["fixed"]),
    ],
    codes: &[CodeRow {
        id: RlcBlock::ID,
        name: "rlc-block",
        cover: Cover::Block,
        block_max: Some((BLOCK_SYMBOLS_MAX, "decoding takes cubic time")),
        make: |values| Ok(Arc::new(RlcBlock::new(block_symbols_max(values))?)),
        from_parameters: |parameters| fulmar_fec::from_parameters(RlcBlock::ID, parameters),
    }],
    controllers: &[ControllerRow {
        name: "ctcp",
        obeys: true,
        takes: WINDOW_SETTINGS,
        make: |values| {
            let window = window(values);
            Arc::new(move |context| Box::new(ByQueue::controller(context.mtu_bytes, window)))
        },
    }],
    policies: &[PolicyRow {
        name: "ctcp",
        covers: &[Cover::Block],
        needs: crate::needs::BLOCKS,
        takes: &[],
        is_asked_by_tcp: |_| false,
        make: |values| {
            let proactive = values.number("proactive");
            Arc::new(move |_| Box::new(CtcpHybrid::new(proactive)))
        },
    }],
    sizings: &[SizingRow {
        name: "fixed",
        make: |values| {
            let symbols = values.integer_u32("k");
            Arc::new(move |_| Box::new(FixedSizing::new(symbols)))
        },
    }],
    ..System::NOTHING
};
