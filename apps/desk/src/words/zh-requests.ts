/** Texts of permission requests in Chinese. */
export const zhRequests = {
  'requests.title': '权限请求',
  'requests.update': '智能体请求更多权限',
  'requests.folder': '智能体请求在新文件夹中工作',
  'requests.because': '它的理由：{{reason}}',
  'requests.left': '剩余 {{time}}',
  'requests.approve': '批准这些更改',
  'requests.deny': '拒绝',
  'requests.cannot': '现在无法批准：{{why}}',
} as const;
