//! XOR parity over interleaved groups (TCP-FEC, Kitakyushu 2019, ch. 3 and 5).
//!
//! A cover is dealt out to g groups like cards, round robin; repair symbol i is the XOR of group i, and
//! restores one loss in it. A burst of g losses falls into g groups and is restored; g = 1 is plain parity.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::encode::RowEncoder;
use crate::rows::{Rows, check_cover};
use crate::sliding::{COVER_LEN_MAX, SlidingDecoder};
use crate::{
    Code, CodeError, CodeId, CodeShape, Cover, Decoder, DecoderLimits, Encoder, Geometry, RepairKey,
};

/// XOR over at most `groups_max` interleaved groups of at most `group_len_max` symbols each.
///
/// ```
/// # use fulmar_fec::*;
/// let code = XorGroups::new(2, 10).unwrap();
/// let source = vec![[1], [2], [4], [8]];
/// let cover = Cover::Window(Window { first: SymbolId(0), len: 4 });
/// let mut repair = [0];
/// code.encoder(1).repair(cover, XorGroups::key(2, 1), &source, &mut repair).unwrap();
/// assert_eq!(repair[0], 2 ^ 8); // group 1 of 2: symbols 1 and 3
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct XorGroups {
    groups_max: u16,
    group_len_max: u32,
}

impl XorGroups {
    /// Its number on the wire.
    pub const ID: CodeId = CodeId(1);

    /// At most `groups_max` >= 1 groups, each of at most `group_len_max` symbols (1..=4096). A cover has no
    /// more either.
    pub fn new(groups_max: u16, group_len_max: u32) -> Result<Self, CodeError> {
        if groups_max == 0 || group_len_max == 0 || group_len_max > COVER_LEN_MAX {
            return Err(CodeError::BadParameters);
        }
        Ok(Self { groups_max, group_len_max })
    }

    /// The repair symbol of group `group` of `groups`: the number of groups may change from cover to cover.
    /// Groups that there are not give a key that every code refuses.
    pub fn key(groups: u16, group: u16) -> RepairKey {
        RepairKey(u32::from(groups) << 16 | u32::from(group))
    }

    /// (groups, group) of a key.
    fn parts(key: RepairKey) -> (usize, usize) {
        ((key.0 >> 16) as usize, (key.0 & 0xFFFF) as usize)
    }
}

impl Rows for XorGroups {
    fn check(&self, cover: Cover<'_>, key: RepairKey) -> Result<(), CodeError> {
        let len = check_cover(cover)?;
        let (groups, group) = Self::parts(key);
        if groups == 0 || groups > usize::from(self.groups_max) || group >= groups {
            return Err(CodeError::BadKey);
        }
        if len > COVER_LEN_MAX as usize || len < groups || len.div_ceil(groups) > self.group_len_max as usize
        {
            return Err(CodeError::BadCover);
        }
        Ok(())
    }

    fn row(&self, _cover: Cover<'_>, key: RepairKey, out: &mut [u8]) {
        let (groups, group) = Self::parts(key);
        out.fill(0);
        out.iter_mut().skip(group).step_by(groups).for_each(|coefficient| *coefficient = 1);
    }
}

impl Code for XorGroups {
    fn parameters(&self) -> Vec<u32> {
        vec![u32::from(self.groups_max), self.group_len_max]
    }

    fn repair_key(&self, index: u32, of: u32) -> RepairKey {
        let groups = of.clamp(1, u32::from(self.groups_max)) as u16;
        Self::key(groups, (index % u32::from(groups)) as u16)
    }

    fn shape(&self) -> CodeShape {
        CodeShape {
            id: Self::ID,
            geometry: Geometry::Sliding {
                len_max: u32::from(self.groups_max).saturating_mul(self.group_len_max).min(COVER_LEN_MAX),
            },
            repairs_max: u32::from(self.groups_max),
            is_mds: false,
            needs_closed_window: false,
            is_systematic: true,
        }
    }

    fn encoder(&self, _symbol_bytes: usize) -> Box<dyn Encoder> {
        Box::new(RowEncoder::new(*self))
    }

    fn decoder(&self, symbol_bytes: usize, limits: DecoderLimits) -> Box<dyn Decoder> {
        Box::new(SlidingDecoder::new(*self, self.shape().geometry, symbol_bytes, limits))
    }
}
