// Asks for the probability of fraud of one row. Node 18 and later, Deno, Bun and browsers have `fetch`.
const tensor = { name: "input", shape: [1, 30], datatype: "FP32", data: Array(30).fill(0) };
const reply = await fetch("http://localhost:8000/v2/models/fraud/infer", {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ inputs: [tensor] }),
});
const answer = await reply.json();
if (!reply.ok) throw new Error(answer.error);
console.log(answer.outputs[0].data[0]);
