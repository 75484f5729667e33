//! Drivers that several fuzz targets share.

pub mod codes;
