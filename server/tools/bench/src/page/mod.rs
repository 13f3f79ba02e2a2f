//! Findings as a page: one HTML file that needs no network, with a verdict, figures, charts and tables.
//!
//! A [`Page`] is data. Words, figures and tables are HTML and need no script. A script beside this file draws the
//! charts with the library uPlot, which is part of the program, and sorts the tables.

use std::{fs, path::Path};

use crate::Error;

mod comparison;
pub mod course;
mod figures;
mod html;
mod limit;
mod parts;
mod report;

pub use figures::{milliseconds, number};
pub use parts::{Chart, Listing, Mark, Name, Page, Row, Series, Table};

const HTML: &str = include_str!("assets/page.html");
const PAGE_CSS: &str = include_str!("assets/page.css");
const PAGE_JS: &str = include_str!("assets/page.js");
const UPLOT_CSS: &str = include_str!("assets/uplot.min.css");
const UPLOT_JS: &str = include_str!("assets/uplot.min.js");

impl Page {
    /// The file's text.
    pub fn to_html(&self) -> String {
        let charts: Vec<&Chart> = self.shown_charts().collect();
        let charts = serde_json::to_string(&charts).expect("charts are JSON");
        // Nothing in the data may end the element that holds it.
        let charts = charts.replace('<', "\\u003c");
        let (title, body) = (html::text(&self.title), self.body());
        let parts = [
            ("{title}", title.as_str()),
            ("{uplot_css}", UPLOT_CSS),
            ("{page_css}", PAGE_CSS),
            ("{body}", &body),
            ("{charts}", &charts),
            ("{uplot_js}", UPLOT_JS),
            ("{page_js}", PAGE_JS),
        ];
        let mut html = String::new();
        let mut rest = HTML;
        for (place, part) in parts {
            let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
            html.push_str(before);
            html.push_str(part);
            rest = after;
        }
        html + rest
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        fs::write(path, self.to_html()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_in_the_data_can_end_its_element_or_stand_for_another_part() {
        let bad = "</script><script>alert(1)</script> {page_js} {body} \"><b>".to_owned();
        let chart = Chart { y_label: bad.clone(), x: vec![1.0], ..Chart::default() };
        let row = Row { cells: vec![json!(bad)], mark: Some("best") };
        let page = Page {
            title: bad.clone(),
            verdict: bad.clone(),
            facts: vec![(bad.clone(), bad.clone())],
            warnings: vec![bad.clone()],
            charts: vec![Chart { title: bad.clone(), ..chart }],
            tables: vec![Table { title: bad.clone(), columns: vec![bad.clone()], rows: vec![row] }],
            details: Vec::new(),
            listings: vec![Listing { title: bad.clone(), text: bad.clone() }],
            notes: vec![bad],
        };
        let html = page.to_html();
        assert_eq!(html.matches("<script>").count(), 2, "uPlot's and the page's");
        assert_eq!(html.matches("<script ").count(), 1, "the charts");
        assert!(!html.contains("<b>") && !html.contains("\"><b"), "{html}");
        assert!(html.contains(r"\u003c/script>"), "in the chart");
        assert_eq!(html.matches(PAGE_JS).count(), 1);
        assert!(html.trim_end().ends_with("</html>"));
    }

    #[test]
    fn the_page_asks_for_nothing_from_a_network() {
        let html = Page::default().to_html();
        for link in ["src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!html.contains(link), "{link}");
        }
    }
}
