// Calls each model of model_repository with the types that openapi-typescript makes of the server's document.
// Usage: node client.js URL
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { argv: string[] };

const client = createClient<paths>({ baseUrl: process.argv[2] });

function found<T>(what: string, reply: { data?: T; error?: unknown }): T {
  if (reply.data === undefined) {
    throw new Error(`${what}: ${JSON.stringify(reply.error)}`);
  }
  return reply.data;
}

function check(what: string, holds: boolean): void {
  if (!holds) {
    throw new Error(what);
  }
}

const image = { name: "image", datatype: "FP32", shape: [1, 1, 8, 8], data: Array<number>(64).fill(0.5) } as const;
const digits = found("digits", await client.POST("/v2/models/digits/infer", {
  body: { inputs: [{ ...image, shape: [...image.shape] }] },
}));
const sum = digits.outputs[0].data.reduce((all, it) => all + it, 0);
check(`digits: ${sum}`, Math.abs(sum - 1) < 1e-4);

const fraud = found("fraud", await client.POST("/v1/models/fraud:predict", {
  body: { instances: [Array<number>(30).fill(0), Array<number>(30).fill(1)] },
}));
check("fraud", fraud.predictions.length === 2 && typeof fraud.predictions[0][0] === "number");

const price = found("listing_price", await client.POST("/v1/models/listing_price:predict", {
  body: { instances: [{ neighbourhood: ["Mitte"], rooms: [2], features: [1, 2, 3, 4] }] },
}));
check("listing_price", typeof price.predictions[0].price[0] === "number");

const sentiment = found("sentiment", await client.POST("/v2/models/sentiment/pipeline", {
  body: { inputs: "I am super happy right now." },
}));
check(`sentiment: ${JSON.stringify(sentiment)}`, sentiment[0][0].label === "POSITIVE");

const picture = "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAHElEQVR42mP4TyJgGOQaFBwOYEWjGuirYYimJQDi9IXfUiAUVgAAAABJRU5ErkJggg==";
const shapes = found("shapes", await client.POST("/v2/models/shapes/pipeline", { body: { inputs: picture } }));
check(`shapes: ${JSON.stringify(shapes)}`, shapes.length > 0 && typeof shapes[0].score === "number");

const text = [...Array(30).keys()].join();
const payment = { name: "payment", datatype: "BYTES", shape: [1, 1], data: [text] } as const;
const probability = found("payment", await client.POST("/v2/models/payment/infer", {
  body: { inputs: [{ ...payment, shape: [...payment.shape], data: [...payment.data] }] },
}));
check("payment", 0 <= probability.outputs[0].data[0] && probability.outputs[0].data[0] <= 1);
const row = found("payment_row", await client.POST("/v2/models/payment_row/infer", {
  body: { inputs: [{ ...payment, shape: [...payment.shape], data: [...payment.data] }] },
}));
check("payment_row", row.outputs[0].data.join() === text);

const metadata = found("metadata", await client.GET("/v2/models/{model}", { params: { path: { model: "fraud" } } }));
check("metadata", metadata.inputs[0].shape.join() === "-1,30");

// A failure has its type.
const failed = await client.POST("/v2/models/digits/infer", { body: { inputs: [] } });
check(`failed: ${JSON.stringify(failed.error)}`, failed.response.status === 400 && failed.error!.error.includes("image"));

console.log("digits, fraud, listing_price, payment, payment_row, sentiment and shapes answer");
