//! Bytes from Python: `bytes` as they are, everything else with a buffer as a copy, for it may change.

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

/// What is to be sent.
pub(crate) enum Data {
    Kept(PyBackedBytes),
    Copied(Vec<u8>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Data {
    type Error = PyErr;

    fn extract(object: pyo3::Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyBytes>() {
            return Ok(Self::Kept(object.extract()?));
        }
        Ok(Self::Copied(PyBuffer::<u8>::get(&object)?.to_vec(object.py())?))
    }
}

impl std::ops::Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Kept(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

impl Data {
    pub(crate) fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self)
    }
}

/// Copies `data` to the front of a buffer that is at least as long.
pub(crate) fn fill(py: Python<'_>, buffer: &PyBuffer<u8>, data: &[u8]) -> PyResult<()> {
    let room = buffer.as_mut_slice(py);
    let room =
        room.ok_or_else(|| pyo3::exceptions::PyValueError::new_err("a writable buffer of bytes is needed"))?;
    room.iter().zip(data).for_each(|(to, from)| to.set(*from));
    Ok(())
}
