//! What an output of Ultralytics' models is: decided once, from its shape and the file's metadata.

/// How boxes and scores lie in one row of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `[4 + classes, boxes]`: centre, size and scores, each for all boxes.
    Yolo {
        /// Number of classes.
        classes: usize,
    },
    /// `[boxes, 5 + classes]`: centre, size, objectness and scores of each box.
    YoloV5 {
        /// Number of classes.
        classes: usize,
    },
    /// `[boxes, 6]`: corners, score and class, overlaps removed by the graph.
    EndToEnd {
        /// Number of classes, where it is known.
        classes: Option<usize>,
    },
    /// `[queries, 4 + classes]`: centre and size as shares of the image, and scores, of RT-DETR.
    QueryScores {
        /// Number of classes.
        classes: usize,
    },
    /// `[queries, 6]`: centre and size as shares of the image, score and class, of RT-DETR; the best ones first.
    BestQueries {
        /// Number of classes.
        classes: usize,
    },
}

/// What an RT-DETR gives for each query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryForm {
    /// Scores of all classes.
    Scores,
    /// The best class and its score.
    Best,
}

/// Boxes that a graph gives which removes overlaps itself, where nothing else is said.
const END_TO_END_BOXES: usize = 300;

/// Why an output is no layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No layout has this shape.
    #[error(
        "a row of shape {shape}{known} is not [4 + classes, boxes], [boxes, 5 + classes] or, end to end, [boxes, 6]"
    )]
    Impossible {
        /// The shape that was found, without the dimension of rows.
        shape: String,
        /// What is known of classes, as a part of the sentence.
        known: String,
    },
    /// RT-DETR has none of this shape.
    #[error(
        "a row of shape {shape} for {classes} classes is not RT-DETR's [queries, 4 + classes] or [queries, 6]"
    )]
    NoQueries {
        /// The shape that was found, without the dimension of rows.
        shape: String,
        /// The number of classes.
        classes: usize,
    },
    /// Both of RT-DETR's have it.
    #[error(
        "a row of shape {shape} for {classes} classes may be either of RT-DETR's two forms, and the metadata say \
         neither head nor version: export the model again"
    )]
    EitherQueries {
        /// The shape that was found, without the dimension of rows.
        shape: String,
        /// The number of classes.
        classes: usize,
    },
    /// Several have it.
    #[error(
        "a row of shape {shape}{known} may be {layouts}; name the head: yolo, yolo_v5 or end2end"
    )]
    Ambiguous {
        /// The shape that was found, without the dimension of rows.
        shape: String,
        /// What is known of classes, as a part of the sentence.
        known: String,
        /// The layouts that fit.
        layouts: String,
    },
}

impl Layout {
    /// The layout of an output whose row has these dimensions, `None` for those that the graph leaves open.
    ///
    /// `classes` and `end2end` come from the file's metadata. Without `classes` both dimensions must be known: there
    /// are more boxes than numbers for each of them.
    ///
    /// # Errors
    /// When no layout has this shape, or several.
    pub fn of(
        shape: &[Option<usize>],
        classes: Option<usize>,
        end2end: Option<bool>,
    ) -> Result<Layout, LayoutError> {
        let mut found = Vec::new();
        if let &[first, second] = shape {
            let counted = |wide: Option<usize>, long: Option<usize>, beside: usize| match classes {
                Some(classes) => (classes > 0 && wide == Some(beside + classes)).then_some(classes),
                None => {
                    let wide = wide.filter(|&it| it > beside && long.is_some_and(|long| long > it));
                    wide.map(|it| it - beside)
                }
            };
            let asked = end2end == Some(true);
            let usual = end2end.is_none() && first == Some(END_TO_END_BOXES);
            // The exporter leaves the last dimension open where the sides of images are.
            let is_end_to_end = asked && (second == Some(6) || second.is_none() && first.is_some())
                || usual && second == Some(6);
            if is_end_to_end {
                found.push(Layout::EndToEnd { classes });
            }
            if !asked && !is_end_to_end {
                let yolo = counted(first, second, 4);
                found.extend(yolo.map(|classes| Layout::Yolo { classes }));
                // Exports that say whether they are end to end have no objectness.
                let old = counted(second, first, 5).filter(|_| end2end.is_none());
                found.extend(old.map(|classes| Layout::YoloV5 { classes }));
            }
        }
        let shape = shown(shape);
        let known = match (classes, end2end) {
            (Some(classes), Some(true)) => format!(" for {classes} classes and end to end"),
            (Some(classes), _) => format!(" for {classes} classes"),
            (None, Some(true)) => " end to end".to_owned(),
            (None, _) => " for an unknown number of classes".to_owned(),
        };
        match *found {
            [layout] => Ok(layout),
            [] => Err(LayoutError::Impossible { shape, known }),
            _ => {
                let names: Vec<&str> = found.iter().map(|it| it.name()).collect();
                Err(LayoutError::Ambiguous { shape, known, layouts: names.join(" or ") })
            }
        }
    }

    /// The layout of RT-DETR's output, by its shape as in [`Layout::of`]. `form` decides where the shape does not.
    ///
    /// # Errors
    /// When neither form has this shape, or both have it and nothing decides.
    pub fn of_queries(
        shape: &[Option<usize>],
        classes: usize,
        form: Option<QueryForm>,
    ) -> Result<Layout, LayoutError> {
        let &[_, width] = shape else {
            return Err(LayoutError::NoQueries { shape: shown(shape), classes });
        };
        let by_shape = match (width == Some(4 + classes), width == Some(6)) {
            (true, false) => Some(QueryForm::Scores),
            (false, true) => Some(QueryForm::Best),
            (false, false) if width.is_some() => {
                return Err(LayoutError::NoQueries { shape: shown(shape), classes });
            }
            _ => form,
        };
        match by_shape {
            Some(QueryForm::Scores) => Ok(Layout::QueryScores { classes }),
            Some(QueryForm::Best) => Ok(Layout::BestQueries { classes }),
            None => Err(LayoutError::EitherQueries { shape: shown(shape), classes }),
        }
    }

    /// Its name as the parameter `head` has it; the two of RT-DETR have none there.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Yolo { .. } => "yolo",
            Layout::YoloV5 { .. } => "yolo_v5",
            Layout::EndToEnd { .. } => "end2end",
            Layout::QueryScores { .. } => "rt_detr of Ultralytics",
            Layout::BestQueries { .. } => "rt_detr of Ultralytics, best first",
        }
    }
}

/// A shape whose open dimensions are question marks.
fn shown(shape: &[Option<usize>]) -> String {
    let side = |it: &Option<usize>| it.map_or("?".to_owned(), |it| it.to_string());
    format!("[{}]", shape.iter().map(side).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        shape: &[usize],
        classes: Option<usize>,
        end2end: Option<bool>,
        expect: Result<Layout, &str>,
    ) {
        // Zero stands for a dimension that the graph leaves open.
        let shape: Vec<Option<usize>> = shape.iter().map(|&it| (it > 0).then_some(it)).collect();
        let found = Layout::of(&shape, classes, end2end).map_err(|it| it.to_string());
        assert_eq!(found, expect.map_err(str::to_owned));
    }

    #[test]
    fn shape_and_classes_say_which_it_is() {
        check(&[84, 8400], Some(80), None, Ok(Layout::Yolo { classes: 80 }));
        check(&[84, 0], Some(80), Some(false), Ok(Layout::Yolo { classes: 80 }));
        check(&[0, 85], Some(80), None, Ok(Layout::YoloV5 { classes: 80 }));
        check(&[25200, 85], None, None, Ok(Layout::YoloV5 { classes: 80 }));
        check(&[5, 8400], None, None, Ok(Layout::Yolo { classes: 1 }));
        check(&[25200, 6], Some(1), None, Ok(Layout::YoloV5 { classes: 1 }));
    }

    #[test]
    fn an_export_that_is_not_end_to_end_has_no_objectness() {
        let text = "a row of shape [300, 6] for 1 classes is not [4 + classes, boxes], [boxes, 5 + classes] or, end to \
                    end, [boxes, 6]";
        check(&[300, 6], Some(1), Some(false), Err(text));
    }

    #[test]
    fn rt_detr_is_known_by_its_shape_or_else_by_what_is_said() {
        let of = |width: usize, classes, form| {
            let width = (0 < width).then_some(width);
            Layout::of_queries(&[Some(300), width], classes, form).map_err(|it| it.to_string())
        };
        let (scores, best) = (Some(QueryForm::Scores), Some(QueryForm::Best));
        for form in [None, scores, best] {
            assert_eq!(of(84, 80, form), Ok(Layout::QueryScores { classes: 80 }));
            assert_eq!(of(6, 80, form), Ok(Layout::BestQueries { classes: 80 }));
            assert!(of(85, 80, form).unwrap_err().contains("[300, 85] for 80 classes is not"));
        }
        for width in [6, 0] {
            assert_eq!(of(width, 2, scores), Ok(Layout::QueryScores { classes: 2 }));
            assert_eq!(of(width, 2, best), Ok(Layout::BestQueries { classes: 2 }));
            assert!(of(width, 2, None).unwrap_err().contains("may be either"));
        }
        assert!(Layout::of_queries(&[Some(6)], 2, best).is_err());
    }

    #[test]
    fn an_end_to_end_graph_says_so_or_gives_three_hundred_boxes() {
        check(&[300, 6], Some(80), None, Ok(Layout::EndToEnd { classes: Some(80) }));
        check(&[300, 6], None, None, Ok(Layout::EndToEnd { classes: None }));
        check(&[100, 6], Some(1), Some(true), Ok(Layout::EndToEnd { classes: Some(1) }));
        check(&[0, 6], Some(3), Some(true), Ok(Layout::EndToEnd { classes: Some(3) }));
        check(&[300, 0], Some(3), Some(true), Ok(Layout::EndToEnd { classes: Some(3) }));
    }

    #[test]
    fn what_fits_no_layout_or_several_is_said() {
        let end = "is not [4 + classes, boxes], [boxes, 5 + classes] or, end to end, [boxes, 6]";
        let text = format!("a row of shape [84, 8400] for 79 classes {end}");
        check(&[84, 8400], Some(79), None, Err(&text));
        let text = format!("a row of shape [84, 8400] for 80 classes and end to end {end}");
        check(&[84, 8400], Some(80), Some(true), Err(&text));
        let text = format!("a row of shape [100, 8, 8] for an unknown number of classes {end}");
        check(&[100, 8, 8], None, None, Err(&text));
        let text = format!("a row of shape [?, 84] for an unknown number of classes {end}");
        check(&[0, 84], None, None, Err(&text));
        let text = format!("a row of shape [4, 8400] for 0 classes {end}");
        check(&[4, 8400], Some(0), None, Err(&text));
        let text = "a row of shape [84, 85] for 80 classes may be yolo or yolo_v5; name the head: yolo, yolo_v5 or \
                    end2end";
        check(&[84, 85], Some(80), None, Err(text));
    }
}
