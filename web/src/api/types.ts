// Short names for the types of the generated schema.
import type { components } from "./schema.mjs";

type Schemas = components["schemas"];

export type SessionEvent = Schemas["SessionEvent"];
export type SessionEventOf<T extends SessionEvent["type"]> = Extract<SessionEvent, { type: T }>;
export type Message = Schemas["Message"];
export type Attachment = Schemas["Attachment"];
export type NewAttachment = Schemas["NewAttachment"];
export type SendMessage = Schemas["SendMessage"];
/** While a turn runs: after its end, or after its next tool results. */
export type Delivery = Schemas["Delivery"];
export type ToolCall = Schemas["ToolCall"];
export type CommandPart = Schemas["CommandPart"];
export type PartialReason = Schemas["PartialReason"];
export type CallOutcome = Schemas["CallOutcome"];
export type TurnStatus = Schemas["TurnStatus"];
export type AgentStatus = Schemas["AgentStatus"];
export type Usage = Schemas["Usage"];
export type UsageTotal = Schemas["UsageTotal"];
export type UsageReport = Schemas["UsageReport"];
export type ApprovalInfo = Schemas["ApprovalInfo"];
export type ApproveMode = Schemas["ApproveMode"];
export type FilePreview = Schemas["FilePreview"];
export type OpenApproval = Schemas["OpenApproval"];
export type WaitingInfo = Schemas["Waiting"];
export type WaitingInSession = Schemas["WaitingInSession"];
export type Decision = Schemas["HitlDecision"];
export type Plan = Schemas["Plan"];
export type Task = Schemas["Task"];
export type TaskStatus = Schemas["TaskStatus"];
export type PlannedTask = Schemas["PlannedTask"];
export type PlanDecision = Schemas["PlanDecision"];
export type Project = Schemas["Project"];
export type ProjectAgent = Schemas["ProjectAgent"];
export type SavedAgent = Schemas["SavedAgent"];
export type CreateAgent = Schemas["CreateAgent"];
export type ChangeAgent = Schemas["ChangeAgent"];
export type AgentMetrics = Schemas["AgentMetrics"];
export type AgentStatusInfo = Schemas["AgentStatusInfo"];
export type ContextHit = Schemas["ContextHit"];
export type ContextInteraction = Schemas["ContextInteraction"];
export type AttachedClient = Schemas["AttachedClient"];
export type BroughtText = Schemas["BroughtText"];
export type ClientInstructions = Schemas["ClientInstructions"];
export type WaitingContent = Schemas["WaitingContent"];
export type ProjectPlan = Schemas["ProjectPlan"];
export type Remembered = Schemas["Remembered"];
export type RememberedCalls = Schemas["RememberedCalls"];
export type RewindScope = Schemas["RewindScope"];
export type RewindSession = Schemas["RewindSession"];
export type Rewound = Schemas["Rewound"];
export type McpCall = Schemas["McpCall"];
export type McpServer = Schemas["McpServer"];
export type McpTool = Schemas["McpTool"];
export type McpPermission = Schemas["McpPermission"];
export type ToolDefinition = Schemas["ToolDefinition"];
export type Session = Schemas["ProjectSession"];
export type ModelList = Schemas["ModelList"];
export type ModelTried = Schemas["ModelTried"];
export type OfferedModel = Schemas["OfferedModel"];
export type Health = Schemas["Health"];
export type HealthStatus = Schemas["HealthStatus"];
export type ClusterHealth = Schemas["ClusterHealth"];
export type SpaceHealth = Schemas["SpaceHealth"];
export type SpaceMetrics = Schemas["SpaceMetrics"];
export type AuditList = Schemas["AuditList"];
export type AuditEntry = Schemas["AuditEntry"];

/** A piece of an answer in the Chat that is being written. */
export type ChatDelta = Schemas["GlobalDelta"];

/** A message of the global Chat. */
export interface ChatMessage {
  id: number;
  ts: string | number;
  role: "agent" | "user" | "system";
  author: string;
  text: string;
  meta?: { reply_to?: number | null; tags?: string[]; user_id?: number | null } | null;
}
