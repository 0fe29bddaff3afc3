//! memcached_exporter: every field of `stats` that it reads must exist and have the expected
//! meaning.

use std::collections::BTreeMap;

use harness::{Connection, Server};

/// Fields of `stats`, except `version`. The last two are in seconds, with microseconds.
const GENERAL: &str = "uptime time cas_badval cmd_flush cmd_set get_hits get_misses delete_hits \
     delete_misses incr_hits incr_misses decr_hits decr_misses cas_hits cas_misses touch_hits \
     touch_misses bytes limit_maxbytes curr_items total_items bytes_read bytes_written \
     curr_connections total_connections rejected_connections conn_yields listen_disabled_num \
     evictions reclaimed store_too_large store_no_memory lru_crawler_starts direct_reclaims \
     crawler_items_checked crawler_reclaimed moves_to_cold moves_to_warm moves_within_lru \
     accepting_conns rusage_user rusage_system";

/// Numbers in `stats settings`. The exporter also reads two switches.
const SETTINGS: &str = "maxconns lru_crawler_sleep lru_crawler_tocrawl hot_lru_pct warm_lru_pct \
     hot_max_factor warm_max_factor";

/// Fields of `stats slabs` for each class.
const SLABS: &str = "chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks \
     free_chunks_end get_hits delete_hits incr_hits decr_hits cas_hits touch_hits cas_badval \
     cmd_set";

/// Fields of `stats items` for each class.
const ITEMS: &str = "number age hits_to_hot hits_to_warm hits_to_cold hits_to_temp evicted \
     crawler_reclaimed evicted_nonzero evicted_time evicted_unfetched expired_unfetched \
     outofmemory reclaimed tailrepairs mem_requested moves_to_cold moves_to_warm moves_within_lru \
     number_hot number_warm number_cold age_hot age_warm";

/// Requests statistics. Of a name such as `items:3:age`, only the last part is returned.
fn fields(client: &mut Connection, kind: &str) -> BTreeMap<String, String> {
    client.send(format!("stats{kind}\r\n"));
    let mut fields = BTreeMap::new();
    loop {
        let line = client.line();
        let mut words = line.splitn(3, ' ').skip(1);
        let (Some(name), Some(value)) = (words.next(), words.next()) else { return fields };
        let name = name.rsplit(':').next().unwrap_or(name);
        fields.insert(name.to_owned(), value.to_owned());
    }
}

#[test]
fn no_field_of_the_exporter_is_missing() {
    for (name, server) in [("nagi", Server::nagi()), ("memcached", Server::memcached())] {
        let mut client = server.connect_memcached();
        client.check_raw("set key 0 0 5\r\nvalue\r\n", "STORED\r\n");
        let kinds = [("", GENERAL), (" settings", SETTINGS), (" slabs", SLABS), (" items", ITEMS)];
        for (kind, wanted) in kinds {
            let fields = fields(&mut client, kind);
            for field in wanted.split_whitespace() {
                let value = fields.get(field).map(|value| value.parse::<f64>());
                assert!(matches!(value, Some(Ok(_))), "{name}: stats{kind}: {field}: {value:?}");
            }
        }
        let settings = fields(&mut client, " settings");
        for switch in ["lru_crawler", "lru_maintainer_thread"] {
            assert!(["yes", "no"].contains(&settings[switch].as_str()), "{name}: {switch}");
        }
        assert!(!fields(&mut client, "")["version"].is_empty());
    }
}
