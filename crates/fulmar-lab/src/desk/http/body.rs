//! What a request says.

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use crate::desk::said;
use crate::desk::types::Refusal;

/// A body of JSON; what is wrong with it is told like every other mistake.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let bytes = axum::body::Bytes::from_request(request, state)
            .await
            .map_err(|error| Refusal::new(error.status().as_u16(), error.body_text()))?;
        said::json(&bytes).map(Self)
    }
}
