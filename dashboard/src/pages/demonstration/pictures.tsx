// Which picture is carried: the one that the program draws, or the person's.

import { useEffect, useRef, useState } from "preact/hooks";

import { get, Refusal, request } from "../../desk/client.ts";
import type { Picture } from "../../desk/types.ts";
import { bytes } from "../../units.ts";

export function PictureChoice({ value, onChange }: { value: string; onChange: (id: string) => void }) {
  const [pictures, setPictures] = useState<Picture[]>([]);
  const [error, setError] = useState<string | null>(null);
  const [isOver, setOver] = useState(false);
  const file = useRef<HTMLInputElement>(null);
  const load = (): Promise<void> => get<Picture[]>("images").then(setPictures, () => undefined);
  useEffect(() => void load(), []);
  const give = async (chosen: File | undefined): Promise<void> => {
    if (!chosen) return;
    try {
      setError(null);
      const answer = await request(`images?name=${encodeURIComponent(chosen.name)}`, {
        method: "POST",
        body: chosen,
      });
      const picture = (await answer.json()) as Picture;
      await load();
      onChange(picture.id);
    } catch (problem) {
      setError(problem instanceof Refusal ? problem.message : String(problem));
    }
  };
  const now = pictures.find((picture) => picture.id === value);
  return (
    <div
      class={`pictures ${isOver ? "over" : ""}`}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void give(event.dataTransfer?.files[0]);
      }}
    >
      {now && <img src={`/api/images/${encodeURIComponent(now.id)}`} alt={now.name} />}
      <div>
        <label class="pick">
          <span>Picture</span>
          <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
            {pictures.map((picture) => (
              <option key={picture.id} value={picture.id}>
                {picture.id === "drawn" ? "drawn by the program" : picture.name}
              </option>
            ))}
          </select>
        </label>
        <p class="note">
          {now && bytes(now.bytes)}
          <button type="button" onClick={() => file.current?.click()}>
            Yours …
          </button>
        </p>
        <input
          ref={file}
          type="file"
          accept="image/png,image/jpeg,image/gif,image/webp"
          hidden
          onChange={(event) => void give(event.currentTarget.files?.[0])}
        />
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
      </div>
    </div>
  );
}
