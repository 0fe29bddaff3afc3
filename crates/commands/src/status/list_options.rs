//! The query of `/server-status`: the selection and the order of connections.

use super::clients::{ClientSample, STATES};
use super::sample::Sample;
use form_urlencoded::{Serializer, parse};
use std::cmp::Reverse;

/// The format of a response of `/server-status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusForm {
    /// The HTML page.
    Page,
    /// The lines of mod_status.
    Auto,
    /// JSON.
    Json,
}

impl StatusForm {
    /// The format that a query names, at any position and with any value.
    #[must_use]
    pub fn of(query: &str) -> StatusForm {
        let named = parse(query.as_bytes()).find_map(|(name, _)| match &*name {
            "auto" => Some(StatusForm::Auto),
            "json" => Some(StatusForm::Json),
            _ => None,
        });
        named.unwrap_or(StatusForm::Page)
    }
}

/// The selection and the order of listed connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// The maximum number of connections per page.
    limit: Option<usize>,
    /// The index of the page, starting with 0.
    pub(super) page: usize,
    /// The column to sort by, one of [`COLUMNS`]; by default, the oldest connections come first.
    sort: Option<&'static str>,
    /// The direction, if it is not the column's default.
    order: Option<Order>,
    /// Only connections in this state, if given.
    pub(super) state: Option<&'static str>,
    /// Only connections with this text, in lower case, in one of their text columns.
    pub(super) filter: String,
}

/// The direction of a sorted list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order::Ascending => "ascending",
            Order::Descending => "descending",
        }
    }

    fn other(self) -> Order {
        match self {
            Order::Ascending => Order::Descending,
            Order::Descending => Order::Ascending,
        }
    }
}

/// The values by which connections are sorted.
#[derive(Clone, Copy)]
enum Column {
    /// Numbers, the largest first.
    Figure(fn(&ClientSample) -> u64),
    /// Text, in alphabetical order.
    Text(fn(&ClientSample) -> &str),
}

const COLUMNS: [(&str, Column); 21] = [
    ("id", Column::Figure(|it| it.id)),
    ("ss", Column::Figure(|it| it.idle_s)),
    ("age_seconds", Column::Figure(|it| it.age_s)),
    ("memory_bytes", Column::Figure(|it| it.memory_bytes as u64)),
    ("received_bytes", Column::Figure(|it| it.received_bytes)),
    ("sent_bytes", Column::Figure(|it| it.sent_bytes)),
    ("bytes_per_second", Column::Figure(|it| it.bytes_per_second)),
    ("busy_ns", Column::Figure(|it| it.busy_ns)),
    ("busy_ns_per_second", Column::Figure(|it| it.busy_ns_per_second)),
    ("requests", Column::Figure(|it| it.requests)),
    ("requests_per_second", Column::Figure(|it| it.requests_per_second)),
    ("worker", Column::Figure(|it| it.worker.map_or(0, |worker| worker as u64 + 1))),
    ("database", Column::Figure(|it| it.database as u64)),
    ("remote_addr", Column::Text(|it| &it.address)),
    ("name", Column::Text(|it| &it.name)),
    ("user", Column::Text(|it| &it.user)),
    ("library", Column::Text(|it| &it.library)),
    ("protocol", Column::Text(|it| it.protocol)),
    ("state", Column::Text(|it| it.state)),
    ("method", Column::Text(|it| &it.command)),
    ("key", Column::Text(|it| &it.key)),
];

/// The column with this name.
fn column(name: &str) -> Option<(&'static str, Column)> {
    COLUMNS.into_iter().find(|(known, _)| *known == name)
}

/// The connections on one page.
pub(super) struct Listed<'a> {
    /// The number of matching connections before them.
    pub(super) before: usize,
    /// The number of matching connections.
    pub(super) matching: usize,
    /// The connections on the page.
    pub(super) clients: Vec<&'a ClientSample>,
}

impl ListOptions {
    /// Parses a query, such as `limit=10&page=2&sort=memory_bytes&state=blocked`.
    ///
    /// # Errors
    /// A value is invalid; one line. Unknown names are ignored.
    pub fn parse(query: &str) -> Result<Self, String> {
        let mut options = ListOptions::default();
        for (name, value) in parse(query.as_bytes()) {
            match &*name {
                "limit" => {
                    let wrong = |_| format!("limit: a number from 0 to {}", usize::MAX);
                    options.limit = Some(value.parse().map_err(wrong)?);
                }
                "page" => {
                    let page = value.parse::<usize>().ok().and_then(|page| page.checked_sub(1));
                    options.page = page.ok_or("page: a number from 1 on")?;
                }
                "sort" => {
                    let names = || COLUMNS.map(|(name, _)| name).join(", ");
                    let known = column(&value).map(|(name, _)| name);
                    options.sort = Some(known.ok_or_else(|| format!("sort: one of {}", names()))?);
                }
                "order" => {
                    let known = [Order::Ascending, Order::Descending];
                    let known = known.into_iter().find(|order| order.name() == value);
                    options.order = Some(known.ok_or("order: ascending or descending")?);
                }
                // A form sends the value of its menu even if nothing is selected.
                "state" if value.is_empty() => options.state = None,
                "state" => {
                    let known = STATES.into_iter().find(|state| *state == value);
                    let wrong = || format!("state: one of {}", STATES.join(", "));
                    options.state = Some(known.ok_or_else(wrong)?);
                }
                "filter" => options.filter = value.to_lowercase(),
                _ => {}
            }
        }
        Ok(options)
    }

    /// The connections on the page; `most` is the default limit.
    pub(super) fn list<'a>(&self, sample: &'a Sample, most: usize) -> Listed<'a> {
        let all = sample.clients.iter().flatten();
        let mut clients: Vec<&ClientSample> = all.filter(|client| self.matches(client)).collect();
        if let Some((_, column)) = self.sort.and_then(column) {
            let descends = self.order_of(column) == Order::Descending;
            match column {
                Column::Figure(of) if descends => clients.sort_by_key(|it| Reverse(of(it))),
                Column::Figure(of) => clients.sort_by_key(|it| of(it)),
                Column::Text(of) if descends => {
                    clients.sort_by_cached_key(|it| Reverse(of(it).to_lowercase()));
                }
                Column::Text(of) => clients.sort_by_cached_key(|it| of(it).to_lowercase()),
            }
        }
        let matching = clients.len();
        let limit = self.limit.unwrap_or(most);
        let before = self.page.saturating_mul(limit).min(matching);
        let clients = clients.into_iter().skip(before).take(limit).collect();
        Listed { before, matching, clients }
    }

    /// The direction of the order by a column.
    fn order_of(&self, column: Column) -> Order {
        self.order.unwrap_or(match column {
            Column::Figure(_) => Order::Descending,
            Column::Text(_) => Order::Ascending,
        })
    }

    /// The query for the list sorted by a column, or in reverse if it is already sorted by that
    /// column; in the latter case, also returns the current direction.
    pub(super) fn sorted_by(&self, name: &str) -> (String, Option<&'static str>) {
        let mut options = ListOptions { page: 0, ..self.clone() };
        let Some((name, column)) = column(name) else { return (options.query(0), None) };
        let present = (self.sort == Some(name)).then(|| self.order_of(column));
        options.sort = Some(name);
        options.order = present.map(Order::other);
        (options.query(0), present.map(Order::name))
    }

    /// The hidden fields with which a form keeps the other options.
    pub(super) fn kept(&self) -> Vec<(&'static str, String)> {
        let kept = [
            ("sort", self.sort.map(str::to_owned)),
            ("order", self.order.map(|order| order.name().to_owned())),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ];
        kept.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Whether only some connections are listed.
    pub(super) fn is_filtered(&self) -> bool {
        self.state.is_some() || !self.filter.is_empty()
    }

    fn matches(&self, client: &ClientSample) -> bool {
        if self.state.is_some_and(|state| state != client.state) {
            return false;
        }
        let texts = [
            &client.address,
            &client.name,
            &client.user,
            &client.library,
            &client.command,
            &client.key,
        ];
        let [protocol, state] = [client.protocol, client.state];
        self.filter.is_empty()
            || texts
                .into_iter()
                .map(String::as_str)
                .chain([protocol, state])
                .any(|text| text.to_lowercase().contains(&self.filter))
    }

    /// The labels of links to other pages, with their queries, for this number of matching
    /// connections. Empty if the first page shows all and is the current one. A link to the current
    /// or a missing page has no query.
    pub(super) fn pages(
        &self,
        matching: usize,
        most: usize,
    ) -> Vec<(&'static str, Option<String>)> {
        let last = matching.div_ceil(self.limit.unwrap_or(most).max(1)).saturating_sub(1);
        if last == 0 && self.page == 0 {
            return Vec::new();
        }
        let before = self.page.checked_sub(1).map(|page| page.min(last));
        let places = [
            ("First", Some(0)),
            ("Previous", before),
            ("Next", Some(self.page + 1).filter(|page| *page <= last)),
            ("Last", Some(last)),
        ];
        let named = places.map(|(name, page)| {
            (name, page.filter(|it| *it != self.page).map(|page| self.query(page)))
        });
        named.to_vec()
    }

    /// The query for another page of the list with the same options.
    fn query(&self, page: usize) -> String {
        let mut query = Serializer::new(String::new());
        if page > 0 || self.page > 0 {
            query.append_pair("page", &(page + 1).to_string());
        }
        for (name, value) in self.kept() {
            query.append_pair(name, &value);
        }
        if let Some(state) = self.state {
            query.append_pair("state", state);
        }
        if !self.filter.is_empty() {
            query.append_pair("filter", &self.filter);
        }
        query.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_can_be_short_and_sorted() {
        let options = ListOptions::parse("limit=3&sort=requests&other=1").unwrap();
        assert_eq!((options.limit, options.sort), (Some(3), Some("requests")));
        assert_eq!(ListOptions::parse(""), Ok(ListOptions::default()));
        assert_eq!(ListOptions::parse("filter=&state="), Ok(ListOptions::default()));
        for wrong in ["limit=x", "page=x", "page=0", "order=up"] {
            assert!(ListOptions::parse(wrong).is_err(), "{wrong}");
        }
        assert!(ListOptions::parse("sort=nothing").unwrap_err().contains("memory_bytes"));
        assert!(ListOptions::parse("state=away").unwrap_err().contains("blocked"));
    }

    #[test]
    fn connections_are_chosen_by_state_and_by_text() {
        let client = |name: &str, key: &str, state| ClientSample {
            name: name.to_owned(),
            key: key.to_owned(),
            state,
            ..ClientSample::default()
        };
        let clients = [
            client("web", "Cart:1", "idle"),
            client("web", "", "blocked"),
            client("job", "", "idle"),
        ];
        let chosen = |query: &str| {
            let options = ListOptions::parse(query).unwrap();
            let chosen = clients.iter().map(|client| options.matches(client));
            chosen.collect::<Vec<_>>()
        };
        assert_eq!(chosen(""), [true, true, true]);
        assert_eq!(chosen("state=idle"), [true, false, true]);
        assert_eq!(chosen("filter=WEB"), [true, true, false]);
        assert_eq!(chosen("filter=cart%3A1"), [true, false, false]);
        assert_eq!(chosen("filter=web&state=blocked"), [false, true, false]);
        assert_eq!(chosen("filter=block"), [false, true, false]);
    }

    #[test]
    fn a_form_is_named_anywhere_in_a_query() {
        for (query, form) in [
            ("", StatusForm::Page),
            ("filter=json", StatusForm::Page),
            ("auto", StatusForm::Auto),
            ("auto=", StatusForm::Auto),
            ("refresh=5&auto", StatusForm::Auto),
            ("limit=2&json", StatusForm::Json),
            ("jsonp&autos", StatusForm::Page),
        ] {
            assert_eq!(StatusForm::of(query), form, "{query}");
        }
    }

    #[test]
    fn heads_of_columns_sort_and_turn_round() {
        let sorted = |query: &str, by: &str| ListOptions::parse(query).unwrap().sorted_by(by);
        let turned = |query: &str| (query.to_owned(), None);
        assert_eq!(sorted("", "requests"), turned("sort=requests"));
        assert_eq!(
            sorted("sort=name&page=3&state=idle", "requests"),
            turned("sort=requests&state=idle")
        );
        let (other, present) = sorted("sort=requests&limit=9", "requests");
        assert_eq!(
            (&*other, present),
            ("sort=requests&order=ascending&limit=9", Some("descending"))
        );
        assert_eq!(sorted(&other, "requests").1, Some("ascending"));
        assert_eq!(sorted("sort=name", "name").1, Some("ascending"));
    }

    #[test]
    fn pages_lead_to_each_other() {
        let pages = |query: &str, all| {
            let pages = ListOptions::parse(query).unwrap().pages(all, 500);
            let shown = pages.into_iter().map(|(name, query)| match query {
                Some(query) => format!("{name} {query}"),
                None => name.to_owned(),
            });
            shown.collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(pages("", 500), "");
        assert_eq!(pages("", 501), "First | Previous | Next page=2 | Last page=2");
        let sorted = "First page=1&sort=id&limit=10 | Previous page=1&sort=id&limit=10 | \
                      Next page=3&sort=id&limit=10 | Last page=4&sort=id&limit=10";
        assert_eq!(pages("page=2&limit=10&sort=id", 31), sorted);
        assert_eq!(pages("page=4&limit=10", 31).matches("page=3&limit=10").count(), 1);
        assert_eq!(pages("page=2", 400), "First page=1 | Previous page=1 | Next | Last page=1");
        assert_eq!(pages("page=9", 501), "First page=1 | Previous page=2 | Next | Last page=2");
        assert_eq!(
            pages("state=idle&filter=a+b", 501),
            "First | Previous | Next page=2&state=idle&filter=a+b | \
             Last page=2&state=idle&filter=a+b"
        );
        assert_eq!(
            pages("limit=0", 2),
            "First | Previous | Next page=2&limit=0 | Last page=2&limit=0"
        );
    }
}
