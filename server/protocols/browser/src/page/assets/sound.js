// Sounds: what the microphone hears, as a WAV file of 16 bits and one channel.

// A WAV file of these samples, which are from -1 to 1.
function wav(samples, rate) {
  const file = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, it) => [...it].forEach((letter, place) => file.setUint8(at + place, letter.charCodeAt(0)));
  text(0, "RIFF");
  file.setUint32(4, 36 + 2 * samples.length, true);
  text(8, "WAVEfmt ");
  file.setUint32(16, 16, true);
  file.setUint16(20, 1, true);
  file.setUint16(22, 1, true);
  file.setUint32(24, rate, true);
  file.setUint32(28, 2 * rate, true);
  file.setUint16(32, 2, true);
  file.setUint16(34, 16, true);
  text(36, "data");
  file.setUint32(40, 2 * samples.length, true);
  samples.forEach((it, at) => file.setInt16(44 + 2 * at, Math.round(Math.max(-1, Math.min(1, it)) * 32767), true));
  return new Blob([file], { type: "audio/wav" });
}

// What a browser has recorded, decoded, its channels averaged.
async function recordedWav(blob) {
  const context = new AudioContext();
  try {
    const sound = await context.decodeAudioData(await blob.arrayBuffer());
    const mono = new Float32Array(sound.length);
    for (let channel = 0; channel < sound.numberOfChannels; channel++) {
      sound.getChannelData(channel).forEach((it, at) => {
        mono[at] += it / sound.numberOfChannels;
      });
    }
    return wav(mono, sound.sampleRate);
  } finally {
    await context.close();
  }
}

// A second of a tone that rises, for those without a microphone.
function toneWav() {
  const rate = 16000;
  const at = (time) => 0.4 * Math.sin(2 * Math.PI * (220 * time + 330 * time * time));
  return wav(
    Float32Array.from({ length: rate }, (_, sample) => at(sample / rate)),
    rate,
  );
}

// Records until it is told to stop. `level` hears how loud it is, from 0 to 1.
async function record(level) {
  if (!navigator.mediaDevices) {
    throw new Mistake("A browser records on pages of localhost and of https only. Choose a file of a sound instead.");
  }
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch {
    throw new Mistake("There is no microphone, or this page may not use it. Choose a file of a sound instead.");
  }
  const recorder = new MediaRecorder(stream);
  const parts = [];
  recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
  const ended = new Promise((resolve) => recorder.addEventListener("stop", resolve, { once: true }));
  const context = new AudioContext();
  const heard = context.createAnalyser();
  context.createMediaStreamSource(stream).connect(heard);
  const samples = new Float32Array(heard.fftSize);
  const look = setInterval(() => {
    heard.getFloatTimeDomainData(samples);
    level(samples.reduce((most, it) => Math.max(most, Math.abs(it)), 0));
  }, 100);
  recorder.start();
  return async () => {
    recorder.stop();
    await ended;
    clearInterval(look);
    for (const track of stream.getTracks()) track.stop();
    await context.close();
    return recordedWav(new Blob(parts, { type: recorder.mimeType }));
  };
}
