import { approvals, notifications, toggleNotifications, waiting } from "../feeds/approvals";
import { t } from "../feeds/preferences";
import { approvalKey } from "../state/approvals";
import { ApprovalCard } from "./ApprovalCard";
import { Icon } from "./Icon";
import { Empty, ViewHead } from "./parts";

export function ApprovalsView() {
  const list = waiting.value;
  return (
    <section class="view">
      <ViewHead
        title={t("approvals.title")}
        lead={list.length > 0 ? t("approvals.count", { n: list.length }) : undefined}
      >
        <NotifyButton />
      </ViewHead>
      <div class="view-scroll" data-scroll tabIndex={0} role="region" aria-label={t("approvals.title")}>
        {list.length === 0 ? (
          <Empty
            icon="approvals"
            title={approvals.value.isLoaded ? t("approvals.empty") : t("app.loading")}
            text={approvals.value.isLoaded ? t("approvals.emptyText") : undefined}
          />
        ) : (
          <div class="column">
            {list.map((approval) => (
              <ApprovalCard key={approvalKey(approval)} approval={approval} isInSession={false} />
            ))}
          </div>
        )}
      </div>
    </section>
  );
}

function NotifyButton() {
  if (!("Notification" in globalThis)) return null;
  const text = {
    off: t("approvals.notify"),
    on: t("approvals.notifyOn"),
    denied: t("approvals.notifyDenied"),
  }[notifications.value];
  return (
    <button
      type="button"
      disabled={notifications.value === "denied"}
      aria-pressed={notifications.value === "on"}
      onClick={() => void toggleNotifications()}
    >
      <Icon name="bell" /> {text}
    </button>
  );
}
