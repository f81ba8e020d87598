// Files of messages: choosing them, and showing them.
import { useRef } from "preact/hooks";
import { attachmentLink } from "../api/sessions";
import type { Attachment } from "../api/types";
import { report } from "../feeds/app";
import { addFiles, chosenFiles, refusedFiles, removeFile } from "../feeds/attachments";
import { region, t } from "../feeds/preferences";
import { isImage, MAX_FILES, MAX_IMAGE_BYTES, MAX_TOTAL_BYTES, type RefusedFile } from "../state/attachments";
import { fileSize } from "../state/format";
import { Icon } from "./Icon";

const limitOf = (why: RefusedFile["why"]) => (why === "imageTooLarge" ? MAX_IMAGE_BYTES : MAX_TOTAL_BYTES);

/** Opens the browser's choice of files. */
export function FileButton({ sessionId }: { sessionId: string }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <button
        type="button"
        class="quiet"
        title={t("attach.hint")}
        aria-label={t("attach.button")}
        onClick={() => field.current?.click()}
      >
        <Icon name="attach" />
      </button>
      <input
        ref={field}
        type="file"
        multiple
        hidden
        aria-hidden="true"
        tabIndex={-1}
        onChange={(event) => {
          const input = event.currentTarget;
          addFiles(sessionId, [...(input.files ?? [])]).catch(report);
          // The same file can be chosen again.
          input.value = "";
        }}
      />
    </>
  );
}

/** What will be sent with the next message, and what cannot be. */
export function ChosenFiles({ sessionId }: { sessionId: string }) {
  const files = chosenFiles(sessionId);
  const refused = refusedFiles(sessionId);
  return (
    <>
      {files.length > 0 && (
        <ul class="files" aria-label={t("attach.chosen")}>
          {files.map((file) => (
            <li class="file-chip" key={file.data + file.name}>
              {isImage(file.media_type) ? (
                <img src={`data:${file.media_type};base64,${file.data}`} alt="" />
              ) : (
                <Icon name="file" />
              )}
              <span class="clip">{file.name}</span>
              <span class="meta">{fileSize(region.value, file.size)}</span>
              <button
                type="button"
                class="quiet"
                aria-label={t("attach.remove", { name: file.name })}
                onClick={() => removeFile(sessionId, file)}
              >
                <Icon name="cross" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {refused.length > 0 && (
        <div class="files-refused" role="alert">
          {refused.map(({ name, why }) => (
            <p key={name + why}>
              <Icon name="warning" />{" "}
              {t(`attach.${why}`, { name, n: MAX_FILES, size: fileSize(region.value, limitOf(why)) })}
            </p>
          ))}
        </div>
      )}
    </>
  );
}

/** The files of a message. An image opens in a tab of its own; other files are downloaded. */
export function MessageFiles({ sessionId, files }: { sessionId: string; files: readonly Attachment[] }) {
  if (files.length === 0) return null;
  return (
    <ul class="files" aria-label={t("attach.sent")}>
      {files.map((file) => {
        const link = attachmentLink(sessionId, file.digest);
        return (
          <li key={file.name + file.digest}>
            {isImage(file.media_type) ? (
              <a class="file-image" href={link} target="_blank" rel="noopener noreferrer" title={file.name}>
                <img src={link} alt={file.name} loading="lazy" />
              </a>
            ) : (
              <a class="file-chip" href={link} download={file.name}>
                <Icon name="file" />
                <span class="clip">{file.name}</span>
                <span class="meta">{fileSize(region.value, file.size)}</span>
              </a>
            )}
          </li>
        );
      })}
    </ul>
  );
}
