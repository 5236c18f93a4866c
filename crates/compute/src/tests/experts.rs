//! Routing, products of experts and their sums, against values worked out by hand.

use super::ops::on_rows;
use super::{assert_close, backends, floats};
use crate::{ComputeError, GraphBuilder, Route, Shape, Value};

const PLAIN: Route = Route {
    n_used: 2,
    normalized: false,
    scale: 1.0,
};

/// Routers' logits of two tokens and four experts.
const LOGITS: [&[f32]; 2] = [&[1.0, 3.0, 2.0, 3.0], &[-1.0, 0.5, 0.0, -2.0]];

#[test]
fn experts_are_picked_and_weighted() {
    // e^3 / (e + 2 e^3 + e^2); of equal logits the first expert comes first. Then of [-1, 0.5, 0, -2].
    let softmax = [
        1.0, 3.0, 0.3994866, 0.3994866, 1.0, 2.0, 0.5230821, 0.3172653,
    ];
    let of_chosen = [1.0, 3.0, 0.5, 0.5, 1.0, 2.0, 0.6224593, 0.3775407];
    for backend in backends() {
        let cases = [
            (PLAIN, softmax),
            // Softmax over all and division by the sum of the chosen is softmax over the chosen.
            (
                Route {
                    normalized: true,
                    ..PLAIN
                },
                of_chosen,
            ),
        ];
        for (route, expected) in cases {
            let found = on_rows(&backend, LOGITS, |g, x| g.route(x, &route));
            assert_close(&found, &expected, 1e-6);
        }
        let halved = Route {
            scale: 0.5,
            ..PLAIN
        };
        let found = on_rows(&backend, LOGITS, |g, x| g.route(x, &halved));
        assert_close(&found[2..4], &[0.1997433, 0.1997433], 1e-6);
    }
}

/// A router whose logits are no numbers says nothing about experts, but shows in what they give.
#[test]
fn logits_that_are_no_numbers_stay_visible() {
    for backend in backends() {
        for bad in [f32::NAN, f32::INFINITY] {
            let rows: [&[f32]; 2] = [&[1.0, bad, 0.0], &[1.0, 2.0, 0.0]];
            let found = on_rows(&backend, rows, |g, x| g.route(x, &PLAIN));
            assert_eq!(found[..2], [0.0, 1.0]);
            assert!(found[2..4].iter().all(|weight| weight.is_nan()));
            assert!(found[4..].iter().all(|value| value.is_finite()));
        }
    }
}

#[test]
fn products_and_sums_of_experts() {
    for backend in backends() {
        // Expert e multiplies by e + 1, its second row by ten times that.
        let weights: Vec<f32> = (1..=4u8)
            .flat_map(|e| [e, 0, 0, 10 * e].map(f32::from))
            .collect();
        let weights = floats(&*backend, &[2, 2, 4], &weights);
        let router = [1.0, 3.0, 2.0, 3.0, -1.0, 0.5, 0.0, -2.0];
        let router: Vec<f32> = (0..4).flat_map(|e| [router[e], router[4 + e]]).collect();
        let router = floats(&*backend, &[2, 4], &router);
        let on = |build: &dyn Fn(&mut GraphBuilder, Value, Value) -> Value| {
            // Unit vectors, so that the router's columns are the logits above.
            on_rows(&backend, [&[1.0, 0.0], &[0.0, 1.0]], |g, x| {
                let logits = g.matmul(&router, x);
                let routes = g.route(
                    logits,
                    &Route {
                        normalized: true,
                        ..PLAIN
                    },
                );
                build(g, x, routes)
            })
        };
        // Experts 1 and 3 of the first token, 1 and 2 of the second.
        let once = on(&|g, x, routes| g.expert_matmul(&weights, x, routes));
        assert_close(&once, &[2.0, 0.0, 4.0, 0.0, 0.0, 20.0, 0.0, 30.0], 1e-6);
        let twice = on(&|g, x, routes| {
            let once = g.expert_matmul(&weights, x, routes);
            g.expert_matmul(&weights, once, routes)
        });
        assert_close(&twice, &[4.0, 0.0, 16.0, 0.0, 0.0, 400.0, 0.0, 900.0], 1e-6);
        let sum = on(&|g, x, routes| {
            let once = g.expert_matmul(&weights, x, routes);
            g.combine(once, routes)
        });
        // 2 / 2 + 4 / 2; 20 * 0.6224593 + 30 * 0.3775407.
        assert_close(&sum, &[3.0, 0.0, 0.0, 23.775407], 1e-6);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let backend = &backends()[0];
    let weights = floats(&**backend, &[4, 2, 3], &[0.0; 24]);
    let refused = |build: &dyn Fn(&mut GraphBuilder, Value) -> Value| {
        let mut g = GraphBuilder::new(crate::BatchShape {
            n_tokens: 2,
            ..Default::default()
        });
        let table = floats(&**backend, &[4, 2], &[0.0; 8]);
        let x = g.embed(&table);
        let value = build(&mut g, x);
        g.finish(&[value]).unwrap_err()
    };
    for route in [
        Route { n_used: 0, ..PLAIN },
        Route { n_used: 5, ..PLAIN },
        Route {
            scale: f32::NAN,
            ..PLAIN
        },
    ] {
        let error = refused(&|g, x| g.route(x, &route));
        assert!(
            matches!(error, ComputeError::Parameter { op: "route", .. }),
            "{error}"
        );
    }
    let is_shape = |error: ComputeError| matches!(error, ComputeError::Shape { .. });
    // Four experts are chosen from and three are there; then rows of another length.
    assert!(is_shape(refused(&|g, x| {
        let routes = g.route(x, &Route { n_used: 4, ..PLAIN });
        g.expert_matmul(&weights, x, routes)
    })));
    assert!(is_shape(refused(&|g, x| {
        let routes = g.route(x, &PLAIN);
        let half = g.reshape(x, Shape::new(&[2, 2, 2]).unwrap());
        g.expert_matmul(&weights, half, routes)
    })));
    assert!(is_shape(refused(&|g, x| {
        let routes = g.route(x, &PLAIN);
        g.combine(x, routes)
    })));
}
