//! Debian's libisal, opened at run time: nothing of it is needed to build.

use libloading::Library;

use crate::measure::{SYMBOL, gb_per_s, symbols};

type GenMatrix = unsafe extern "C" fn(*mut u8, i32, i32);
type Invert = unsafe extern "C" fn(*mut u8, *mut u8, i32) -> i32;
type InitTables = unsafe extern "C" fn(i32, i32, *mut u8, *mut u8);
type Encode = unsafe extern "C" fn(i32, i32, i32, *mut u8, *mut *mut u8, *mut *mut u8);

pub struct Isal {
    gen_matrix: GenMatrix,
    invert: Invert,
    init_tables: InitTables,
    encode: Encode,
    _library: Library,
}

impl Isal {
    pub fn load() -> Option<Self> {
        // SAFETY: libisal runs no code when it is loaded but feature detection, and the types are those of
        // erasure_code.h.
        unsafe {
            let library = Library::new("libisal.so.2").ok()?;
            Some(Self {
                gen_matrix: *library.get(b"gf_gen_cauchy1_matrix\0").ok()?,
                invert: *library.get(b"gf_invert_matrix\0").ok()?,
                init_tables: *library.get(b"ec_init_tables\0").ok()?,
                encode: *library.get(b"ec_encode_data\0").ok()?,
                _library: library,
            })
        }
    }

    /// With its tables prepared.
    pub fn encode(&self, k: usize, r: usize) -> f64 {
        let mut sources = symbols(k, SYMBOL);
        let mut repairs = symbols(r, SYMBOL);
        let mut matrix = vec![0; (k + r) * k];
        let mut tables = vec![0; 32 * k * r];
        // SAFETY: the matrix has (k + r) rows of k, the tables 32 bytes for each of k * r coefficients.
        unsafe {
            (self.gen_matrix)(matrix.as_mut_ptr(), (k + r) as i32, k as i32);
            (self.init_tables)(k as i32, r as i32, matrix[k * k..].as_mut_ptr(), tables.as_mut_ptr());
        }
        let mut from: Vec<*mut u8> = sources.iter_mut().map(|s| s.as_mut_ptr()).collect();
        let mut to: Vec<*mut u8> = repairs.iter_mut().map(|s| s.as_mut_ptr()).collect();
        gb_per_s(k * SYMBOL, || {
            // SAFETY: k sources and r repairs of SYMBOL bytes each.
            unsafe {
                let (from, to) = (from.as_mut_ptr(), to.as_mut_ptr());
                (self.encode)(SYMBOL as i32, k as i32, r as i32, tables.as_mut_ptr(), from, to);
            }
        })
    }

    /// The first r sources lost; its inversion and its tables included, as they depend on what was lost.
    pub fn decode(&self, k: usize, r: usize) -> f64 {
        let mut sources = symbols(k, SYMBOL);
        let mut restored = symbols(r, SYMBOL);
        let mut matrix = vec![0; (k + r) * k];
        // SAFETY: the matrix has (k + r) rows of k.
        unsafe { (self.gen_matrix)(matrix.as_mut_ptr(), (k + r) as i32, k as i32) };
        let mut from: Vec<*mut u8> = sources.iter_mut().map(|s| s.as_mut_ptr()).collect();
        let mut to: Vec<*mut u8> = restored.iter_mut().map(|s| s.as_mut_ptr()).collect();
        let mut tables = vec![0; 32 * k * r];
        let mut inverse = vec![0; k * k];
        gb_per_s(k * SYMBOL, || {
            let mut present = matrix[r * k..(k + r) * k].to_vec();
            // SAFETY: square matrices of k, r rows of the inverse, k sources and r restored symbols of SYMBOL
            // bytes each.
            unsafe {
                (self.invert)(present.as_mut_ptr(), inverse.as_mut_ptr(), k as i32);
                (self.init_tables)(k as i32, r as i32, inverse.as_mut_ptr(), tables.as_mut_ptr());
                let (from, to) = (from.as_mut_ptr(), to.as_mut_ptr());
                (self.encode)(SYMBOL as i32, k as i32, r as i32, tables.as_mut_ptr(), from, to);
            }
        })
    }
}
