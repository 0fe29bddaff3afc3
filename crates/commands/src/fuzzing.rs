//! What any bytes have to hold to that are queries of the status page, for fuzz targets and for the
//! property tests of this crate.

/// A query of the status page, and text on it.
pub fn list_options(data: &[u8]) {
    crate::status::fuzzing::list_options(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn queries_lead_to_the_same_list(
            query in "((page|limit|sort|state|filter)=([0-9]{1,20}|id|idle|[%+A-Z<é]{0,3})&){0,4}",
        ) {
            list_options(query.as_bytes());
        }
    }
}
